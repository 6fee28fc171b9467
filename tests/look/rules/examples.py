"""Worked examples of the rules that no recording of tests/frozen shows: one that finds, one that is clear."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from look.rules.sketch import ADD, GEMM, Sketch, kernel


@dataclass(frozen=True, slots=True)
class Example:
    """A made-up trace, and what the rule must say of it: a part of the evidence of its first finding.

    `says` is None where the rule must find nothing.
    """

    about: str
    document: Callable[[], Mapping[str, Any]]
    says: Mapping[str, Any] | None


def all_reduce(*work: Any) -> Mapping[str, Any]:
    sketch = Sketch().step().op("aten::add", kernel(ADD, 20))
    return (sketch.op("record_param_comms", *work) if work else sketch).document()


def launch(steps: int, us: float, busy_us: float = 5) -> Mapping[str, Any]:
    sketch = Sketch()
    for _ in range(steps):
        sketch.step().op("aten::mul", kernel(ADD, busy_us))
        sketch.host("cuda_runtime", "cudaLaunchKernel", us)
        sketch.op("aten::add", kernel(ADD, 5), us=100)
    return sketch.document()


def columns(width: int, name: str) -> Mapping[str, Any]:
    sketch = Sketch("NVIDIA H100 80GB HBM3").step()
    work = kernel(f"void cutlass::Kernel2<{name}>({name}::Params)", 400)
    dims, strides = [[4096, 1024], [1024, width]], [[1024, 1], [1, 1024]]
    return sketch.op("aten::mm", work, dims=dims, strides=strides).document()


def launches(odd: float) -> Mapping[str, Any]:
    sketch = Sketch().step()
    for us in (50, 50, odd, 50, 50):
        sketch.op("aten::mm", kernel(GEMM, us, grid=[2, 66, 1]), dims=[[64, 64], [64, 64]])
    return sketch.document()


NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
TURING = "cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1"
AMPERE = "cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_64x6_tn_align8"
VARYING = {"count": 5, "median_ns": 50000, "mean_ns": 70000, "min_ns": 50000, "max_ns": 150000}
NAMED = {"kernel": "nvjet 256x128x64 tn bf16", "name": GEMM, "op": "aten::mm", "role": "gemm"}
EXAMPLES = {
    "exposed_comms": (
        Example(
            "an all-reduce after the last kernel",
            lambda: all_reduce(kernel(NCCL, 30)),
            {"collectives": 1, "ns": 30000, "exposed_ns": 30000},
        ),
        Example("no communication", all_reduce, None),
    ),
    "first_use": (
        Example(
            "a launch of 6.5 ms in the only step",
            lambda: launch(1, 6500),
            {"calls": 1, "taken_ns": 6_500_000, "recorded_ns": 6_610_000},
        ),
        Example("the same in two steps", lambda: launch(2, 6500), None),
        Example("a launch that waits for a full queue", lambda: launch(1, 6500, 6800), None),
    ),
    "misaligned_matmuls": (
        Example(
            "an odd number of columns on an H100 runs a Turing kernel",
            lambda: columns(5185, TURING),
            {"count": 1, "dimensions": [5185]},
        ),
        Example("a multiple of 8", lambda: columns(5192, AMPERE), None),
    ),
    "varying_kernels": (
        Example(
            "four launches of 50 us and one of 150",
            lambda: launches(150),
            {"above_median_ns": 100000, "kernels": [NAMED | VARYING]},
        ),
        Example("launches of the same length", lambda: launches(51), None),
    ),
}
