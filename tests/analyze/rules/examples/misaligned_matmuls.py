"""Worked examples of `misaligned_matmuls`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import Example, Sketch, kernel


def _sketch(width: int, name: str) -> dict[str, Any]:
    return (
        Sketch("NVIDIA H100 80GB HBM3")
        .step()
        .op(
            "aten::mm",
            kernel(f"void cutlass::Kernel2<{name}>({name}::Params)", 400),
            dims=[[4096, 1024], [1024, width]],
            strides=[[1024, 1], [1, 1024]],
        )
        .document()
    )


EXAMPLES = (
    Example(
        "an odd number of columns on an H100 runs a Turing kernel",
        lambda: _sketch(5185, "cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1"),
        {"count": 1, "dimensions": [5185]},
    ),
    Example(
        "a multiple of 8",
        lambda: _sketch(5192, "cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_64x6_tn_align8"),
        None,
    ),
)
