"""Worked examples of `fusable_pointwise`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import GELU, GEMM, MUL, Example, Sketch, kernel


def _mlp() -> dict[str, Any]:
    rows, wide = [8192, 768], [8192, 3072]
    matmul = kernel(GEMM, 56)
    return (
        Sketch()
        .step()
        .op("aten::mm", matmul, dims=[rows, [768, 3072]])
        .op("aten::gelu", kernel(GELU, 33), dims=[wide, []])
        .op("aten::mm", matmul, dims=[rows, [768, 3072]])
        .op("aten::mul", kernel(MUL, 37), dims=[wide, wide])
        .document()
    )


EXAMPLES = (
    Example(
        "a gated MLP: gelu of one matmul times another",
        _mlp,
        {"kernels": 2, "could_be": 1, "bytes_saved": 100_663_296},
    ),
    Example(
        "two kernels on tensors of different sizes",
        lambda: (
            Sketch()
            .step()
            .op("aten::gelu", kernel(GELU, 33), dims=[[64, 64], []])
            .op("aten::mul", kernel(MUL, 37), dims=[[32, 32], [32, 32]])
            .document()
        ),
        None,
    ),
)
