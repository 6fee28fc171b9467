"""Arithmetic of a GPU: matmuls by data type, tensor cores alone, atomic additions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import triton.language as tl

from foretrace.record.experiments.roofs import memory_kernels as kernels
from foretrace.record.experiments.roofs.clock import sustained_us, timing
from foretrace.record.experiments.roofs.dot_kernel import dot_kernel

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
# what is added to: one address, a line, and addresses enough for all
SPREADS = {"one address": 1, "32 addresses": 32, "4096 addresses": 4096, "own addresses": 1 << 20}
ATOMIC_TYPES = {"int32": torch.int32, "fp32": torch.float32}


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
    taken = timing(call, repeats)
    flops = 2 * size**3
    sustained = flops / sustained_us(call, taken.median_us) / 1e6
    rate = flops / taken.median_us / 1e6
    return {"tflops": rate, "sustained_tflops": sustained, "size": size, **taken.fields()}


def dot_launch(name: str, steps: int = DOT_STEPS) -> tuple[Call, int]:
    """Tensor cores alone: tiles that stay on the chip, multiplied over and over; and its FLOPs."""
    (m, n, k), warps = DOTS[name]
    wide = {"int8": tl.int32, "fp64_matrix": tl.float64}.get(name, tl.float32)
    kept = {"int8": torch.int32, "fp64_matrix": torch.float64}.get(name, torch.float32)
    grid = torch.cuda.get_device_properties().multi_processor_count * (1 if warps == 8 else 2)
    a, b = random(m, k, name), random(n, k, name)
    out = torch.empty(grid, dtype=kept, device="cuda")
    run = partial(dot_kernel[(grid,)], a, b, out, steps, m, n, k, wide, num_warps=warps)
    return run, 2 * m * n * k * steps * grid


def dot(name: str) -> dict[str, Any]:
    """TFLOP/s of tensor cores that wait for no memory."""
    call, flops = dot_launch(name)
    taken = timing(call)
    rate = flops / taken.median_us / 1e6
    sustained = flops / sustained_us(call, taken.median_us) / 1e6
    return {"tflops": rate, "sustained_tflops": sustained, "flops": flops, **taken.fields()}


def atomic_launch(spread: str, dtype: str) -> tuple[Call, int]:
    """Additions to a number of addresses, and how many they are."""
    steps = 16 if SPREADS[spread] < 4096 else 256
    target = torch.zeros(SPREADS[spread], dtype=ATOMIC_TYPES[dtype], device="cuda")
    grid, block = 4 * torch.cuda.get_device_properties().multi_processor_count, 1024
    run = partial(kernels.add_kernel[(grid,)], target, SPREADS[spread], steps, block, num_warps=8)
    return run, grid * block * steps


def atomics(spread: str, dtype: str) -> dict[str, Any]:
    """10^9 additions per second."""
    call, count = atomic_launch(spread, dtype)
    taken = timing(call)
    return {"gops": count / taken.median_us / 1e3, "count": count, **taken.fields()}
