"""Every figure of a CUDA GPU: what is measured, in which order, under which name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from foretrace.record.experiments.roofs import bandwidth, counted, host, rates, shared_memory
from foretrace.record.experiments.roofs.figure import Figure

NOT_HERE = {
    "reads of small working sets": (
        "multiprocessors that read one line at the same time read it once, so they get more than "
        "L2 gives"
    ),
}


def figures() -> Iterator[Figure]:
    """All figures; those of a group follow each other."""
    sms = bandwidth.multiprocessors()
    for size in bandwidth.working_sets():
        for way in bandwidth.WAYS:
            if shapes := bandwidth.shapes_of(size, sms, way):
                measure = partial(bandwidth.bandwidth, way, size, shapes)
                yield Figure("bandwidth", f"{way} {size}", measure)
    for size in bandwidth.working_sets(16 << 10):
        yield Figure("latency", f"{size}", partial(bandwidth.latency, size))
    for way in bandwidth.WAYS:
        yield Figure("shared", way, partial(shared_memory.bandwidth, way))
    yield Figure("shared", "latency", shared_memory.latency)
    for exponent in range(8, 16):
        for behind in counted.BEHIND:
            measure = partial(counted.gelu_time, 1 << exponent, behind)
            yield Figure("gelu_mul", f"{1 << exponent} behind {behind}", measure)
    yield from _arithmetic()
    yield from _host()


def _arithmetic() -> Iterator[Figure]:
    for name in rates.MATMULS:
        for size in (4096, 8192, 16384) if name not in ("fp32", "fp64_matrix") else (4096, 8192):
            yield Figure("matmuls", f"{name} {size}", partial(rates.matmul, name, size))
    for name in rates.DOTS:
        yield Figure("tensor_cores", name, partial(rates.dot, name))
    for spread in rates.SPREADS:
        for dtype in rates.ATOMIC_TYPES:
            yield Figure("atomics", f"{dtype} {spread}", partial(rates.atomics, spread, dtype))


def _host() -> Iterator[Figure]:
    for name, measure in host.LAUNCHES.items():
        yield Figure("launches", name, measure)
    for memory in ("pageable", "pinned"):
        for way in ("up", "down"):
            for size in host.TRANSFERS:
                name = f"{memory} {way} {size}"
                yield Figure("transfers", name, partial(host.transfer, memory, way, size))
    for name in host.OPS:
        yield Figure("host", name, partial(host.op, name))
