"""Launches of the measured kernels whose bytes and FLOPs are known, for a profiler of counters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from foretrace.record.experiments.roofs import bandwidth, memory_kernels, rates, shared_memory
from foretrace.record.experiments.roofs.clock import timing

MIB = 1 << 20
ROWS, HIDDEN, INNER = 8192, 768, 3072  # the articles' MLP
GELU_BLOCK = 1024
BEHIND = ("producers", "itself", "flood")


class Counted(NamedTuple):
    """One launch: what runs before it, and what it should move or compute."""

    name: str
    run: Callable[[], object]
    before: Callable[[], object]
    expected: dict[str, Any]


def nothing() -> None:
    """Nothing needs to run before."""


def walks(ways: Sequence[str] = bandwidth.WAYS) -> Iterator[Callable[[], Counted]]:
    """Reads, writes and copies by working set, as `bandwidth` launches them."""
    for way in ways:
        for size in bandwidth.working_sets():
            for shape in bandwidth.shapes_of(size, bandwidth.multiprocessors(), way):
                yield partial(_moved, way, size, shape)


def memory() -> Iterator[Callable[[], Counted]]:
    """Walks; chases; atomic additions; shared memory."""
    yield from walks()
    for size in (128 << 10, 8 * MIB, 1024 * MIB):
        yield partial(_chased, size)
    for spread in rates.SPREADS:
        yield partial(_added, spread)
    for way in bandwidth.WAYS:
        yield partial(_shared, way)


def arithmetic() -> Iterator[Callable[[], Counted]]:
    """Tensor cores alone, and matmuls through torch."""
    for name in rates.DOTS:
        yield partial(_dot, name)
    for name in rates.MATMULS:
        yield partial(_matmul, name)


def gelu_mul() -> Iterator[Callable[[], Counted]]:
    """`gelu(gate) * up` behind its producers, behind itself, and behind a flood of L2."""
    for rows in (1024, ROWS):
        for behind in BEHIND:
            yield partial(gelu_counted, rows, behind)


def _moved(way: str, size: int, shape: bandwidth.WalkShape) -> Counted:
    ready = bandwidth.launch(way, size, shape)
    name = f"{way} {size} {shape}"
    expected = {"bytes": ready.moved, "working_set_bytes": size, "way": way}
    return Counted(name, ready.run, ready.run, expected)


def _chased(size: int) -> Counted:
    links, place = bandwidth.chain(size)
    run = partial(memory_kernels.chase_kernel[(1,)], links, place, bandwidth.CHASED, num_warps=1)
    expected = {"loads": bandwidth.CHASED, "working_set_bytes": size}
    return Counted(f"chase {size}", run, run, expected)


def _added(spread: str) -> Counted:
    run, count = rates.atomic_launch(spread, "int32")
    return Counted(f"atomics {spread}", run, run, {"additions": count})


def _shared(way: str) -> Counted:
    run, moved = shared_memory.launch(way)
    return Counted(f"shared {way}", run, run, {"shared_bytes": moved})


def _dot(name: str) -> Counted:
    run, flops = rates.dot_launch(name, 1024)
    return Counted(f"tensor cores {name}", run, run, {"flops": flops})


def _matmul(name: str) -> Counted:
    size = 4096
    run = rates.matmul_call(name, size)
    return Counted(f"matmul {name} {size}", run, run, {"flops": 2 * size**3})


def gelu_counted(rows: int, behind: str) -> Counted:
    """The pointwise kernel between the matmuls of the articles' MLP."""
    new: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    x, gate_w, up_w = (torch.randn(size, HIDDEN, **new) for size in (rows, INNER, INNER))
    gate, up = x @ gate_w.t(), x @ up_w.t()
    out = torch.empty_like(gate)
    count = gate.numel()
    grid = (-(-count // GELU_BLOCK),)
    run = partial(
        memory_kernels.gelu_mul_kernel[grid], gate, up, out, count, GELU_BLOCK, num_warps=4
    )
    flood = torch.zeros(1 << 26, device="cuda")

    def matmuls() -> None:
        torch.mm(x, gate_w.t(), out=gate)
        torch.mm(x, up_w.t(), out=up)

    before = {"producers": matmuls, "itself": run, "flood": flood.sum}[behind]
    return Counted(f"gelu*mul {rows} behind {behind}", run, before, {"bytes": 3 * 2 * count})


def gelu_time(rows: int, behind: str) -> dict[str, Any]:
    """The rate of that kernel by what ran before it: above that of HBM where its input is in L2."""
    ready = gelu_counted(rows, behind)
    taken = timing(ready.run, 15, before=ready.before)
    moved = ready.expected["bytes"]
    return {"gbps": moved / taken.median_us / 1e3, "bytes": moved, **taken.fields()}
