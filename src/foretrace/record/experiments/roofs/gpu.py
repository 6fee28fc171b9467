"""Every figure of a CUDA GPU: arithmetic, a pointwise kernel by what ran before, and the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
import triton.language as tl

from foretrace.record.experiments.roofs import gpu_memory, host, kernels
from foretrace.record.experiments.roofs.timing import Figure, Timing, sustained_us, timing

Call = Callable[[], object]
_TYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "tf32": torch.float32,
    "fp32": torch.float32,
    "fp64_matrix": torch.float64,
    "fp8": torch.float8_e4m3fn,
    "fp8_slow_sum": torch.float8_e4m3fn,
    "int8": torch.int8,
}
MATMULS = tuple(_TYPES)
# (m, n, k) of a program's tiles and its warps: what wgmma and DMMA take with full registers
DOTS: dict[str, tuple[tuple[int, int, int], int]] = {
    "bf16": ((128, 256, 64), 8),
    "fp16": ((128, 256, 64), 8),
    "tf32": ((128, 256, 32), 8),
    "fp8": ((128, 256, 128), 8),
    "int8": ((128, 256, 128), 8),
    "fp64_matrix": ((64, 64, 16), 4),
}
DOT_STEPS = 8192
ROWS, HIDDEN, INNER = 8192, 768, 3072  # the articles' MLP
GELU_BLOCK = 1024
BEHIND = ("producers", "itself", "flood")
NOT_HERE = {
    "reads of small working sets": (
        "multiprocessors that read one line at the same time read it once, so they get more than "
        "L2 gives"
    ),
}


def random(rows: int, columns: int, name: str) -> torch.Tensor:
    """A random matrix of a type, normal or, of integers, even."""
    if name == "int8":
        return torch.randint(-128, 128, (rows, columns), device="cuda", dtype=torch.int8)
    made = torch.randn(rows, columns, device="cuda", dtype=torch.float32)
    return made.to(_TYPES[name])


def matmul_call(name: str, size: int) -> Call:
    """A square matmul through torch; the second factor is stored transposed, as weights are."""
    a, b = random(size, size, name), random(size, size, name).t()
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    if name == "int8":
        return partial(torch._int_mm, a, b)
    if name in ("fp8", "fp8_slow_sum"):
        one = torch.ones((), device="cuda")
        fast = name == "fp8"
        return partial(
            torch._scaled_mm, a, b, one, one, out_dtype=torch.bfloat16, use_fast_accum=fast
        )
    return partial(torch.mm, a, b)


def matmul(name: str, size: int) -> dict[str, Any]:
    """TFLOP/s of a square matmul on random data."""
    call = matmul_call(name, size)
    repeats = 21 if name not in ("fp32", "fp64_matrix") else 7
    return {"size": size, **_rates(call, 2 * size**3, timing(call, repeats))}


def dot_launch(name: str, steps: int = DOT_STEPS) -> tuple[Call, int]:
    """Tensor cores alone: tiles that stay on the chip, multiplied over and over; and its FLOPs."""
    (m, n, k), warps = DOTS[name]
    wide = {"int8": tl.int32, "fp64_matrix": tl.float64}.get(name, tl.float32)
    kept = {"int8": torch.int32, "fp64_matrix": torch.float64}.get(name, torch.float32)
    grid = gpu_memory.multiprocessors() * (1 if warps == 8 else 2)
    a, b = random(m, k, name), random(n, k, name)
    out = torch.empty(grid, dtype=kept, device="cuda")
    run = partial(kernels.dot_kernel[(grid,)], a, b, out, steps, m, n, k, wide, num_warps=warps)
    return run, 2 * m * n * k * steps * grid


def dot(name: str) -> dict[str, Any]:
    """TFLOP/s of tensor cores that wait for no memory."""
    call, flops = dot_launch(name)
    return {"flops": flops, **_rates(call, flops, timing(call))}


def _rates(call: Call, flops: int, taken: Timing) -> dict[str, Any]:
    sustained = flops / sustained_us(call, taken.median_us) / 1e6
    rate = flops / taken.median_us / 1e6
    return {"tflops": rate, "sustained_tflops": sustained, **taken.fields()}


class GeluLaunch(NamedTuple):
    """A launch, what runs before it, and the bytes that it moves."""

    run: Call
    before: Call
    moved: int


def gelu_launch(rows: int, behind: str) -> GeluLaunch:
    """The pointwise kernel between the matmuls of the articles' MLP."""
    new: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    x, gate_w, up_w = (torch.randn(size, HIDDEN, **new) for size in (rows, INNER, INNER))
    gate, up = x @ gate_w.t(), x @ up_w.t()
    out = torch.empty_like(gate)
    count = gate.numel()
    grid = (-(-count // GELU_BLOCK),)
    run = partial(kernels.gelu_mul_kernel[grid], gate, up, out, count, GELU_BLOCK, num_warps=4)
    flood = torch.zeros(1 << 26, device="cuda")

    def matmuls() -> None:
        torch.mm(x, gate_w.t(), out=gate)
        torch.mm(x, up_w.t(), out=up)

    before = {"producers": matmuls, "itself": run, "flood": flood.sum}[behind]
    return GeluLaunch(run, before, 3 * 2 * count)


def gelu_time(rows: int, behind: str) -> dict[str, Any]:
    """The rate of that kernel by what ran before it: above that of HBM where its input is in L2."""
    ready = gelu_launch(rows, behind)
    taken = timing(ready.run, 15, before=ready.before)
    rate = ready.moved / taken.median_us / 1e3
    return {"gbps": rate, "bytes": ready.moved, **taken.fields()}


def figures() -> Iterator[Figure]:
    """All figures; those of a group follow each other."""
    sms = gpu_memory.multiprocessors()
    for size in gpu_memory.working_sets():
        for way in gpu_memory.WAYS:
            if shapes := gpu_memory.shapes_of(size, sms, way):
                measure = partial(gpu_memory.bandwidth, way, size, shapes)
                yield Figure("bandwidth", f"{way} {size}", measure)
    for size in gpu_memory.working_sets(16 << 10):
        yield Figure("latency", f"{size}", partial(gpu_memory.latency, size))
    for way in gpu_memory.WAYS:
        yield Figure("shared", way, partial(gpu_memory.shared_bandwidth, way))
    yield Figure("shared", "latency", gpu_memory.shared_latency)
    for exponent in range(8, 16):
        for behind in BEHIND:
            measure = partial(gelu_time, 1 << exponent, behind)
            yield Figure("gelu_mul", f"{1 << exponent} behind {behind}", measure)
    yield from _arithmetic()
    yield from _host()


def _arithmetic() -> Iterator[Figure]:
    for name in MATMULS:
        for size in (4096, 8192, 16384) if name not in ("fp32", "fp64_matrix") else (4096, 8192):
            yield Figure("matmuls", f"{name} {size}", partial(matmul, name, size))
    for name in DOTS:
        yield Figure("tensor_cores", name, partial(dot, name))


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
