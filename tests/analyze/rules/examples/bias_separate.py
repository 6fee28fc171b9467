"""Worked examples of `bias_separate`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import ADD, GEMM, Example, Sketch, kernel


def _sketch(added: list[int]) -> dict[str, Any]:
    matmul = kernel(GEMM, 20)
    return (
        Sketch()
        .step()
        .op("aten::mm", matmul, dims=[[8, 32], [32, 64]])
        .op("aten::add", kernel(ADD, 6), dims=[[8, 64], added])
        .document()
    )


def _convolution() -> dict[str, Any]:
    name = "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_stage4_warpsize2x2x1_g1_kernel"
    settings = ["", "", "[0, 0]", "[1, 1]", "[1, 1]", "1"]  # padding, stride, dilation, groups
    dims = [[8, 16, 32, 32], [64, 16, 1, 1], [], [], [], []]
    return (
        Sketch()
        .step()
        .op("aten::cudnn_convolution", kernel(name, 20), dims=dims, concrete=settings)
        .op("aten::add_", kernel(ADD, 6), dims=[[8, 64, 32, 32], [1, 64, 1, 1]])
        .document()
    )


EXAMPLES = (
    Example(
        "matmul, then a bias vector",
        lambda: _sketch([64]),
        {"additions": 1, "kinds": ["a bias vector"]},
    ),
    Example("a convolution, then a bias per channel", _convolution, {"kinds": ["a bias vector"]}),
    Example(
        "matmul, then a matrix",
        lambda: _sketch([8, 64]),
        {"kinds": ["a whole matrix"], "bytes": 2048},
    ),
    Example(
        "an addition of other sizes",
        lambda: (
            Sketch()
            .step()
            .op("aten::mm", kernel(GEMM, 20), dims=[[8, 32], [32, 64]])
            .op("aten::add", kernel(ADD, 6), dims=[[16, 64], [16, 64]])
            .document()
        ),
        None,
    ),
)
