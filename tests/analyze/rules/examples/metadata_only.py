"""Worked examples of `metadata_only`."""

from __future__ import annotations

from analyze.rules.sketch import COPY, GEMM, Example, Sketch, kernel

EXAMPLES = (
    Example(
        "a linear layer: the weight is transposed by a view",
        lambda: (
            Sketch()
            .step()
            .op("aten::t > aten::transpose", us=4, dims=[[64, 32]])
            .op("aten::mm", kernel(GEMM, 20), dims=[[8, 32], [32, 64]])
            .document()
        ),
        {"calls": {"aten::transpose": 1, "aten::t": 1}},
    ),
    Example(
        "the first of three steps is cold: the median of the others counts",
        lambda: (
            Sketch()
            .step()
            .op("aten::t", us=40, dims=[[64, 32]])
            .op("aten::mm", kernel(GEMM, 20), dims=[[8, 32], [32, 64]])
            .step()
            .op("aten::t", us=6, dims=[[64, 32]])
            .op("aten::mm", kernel(GEMM, 20), dims=[[8, 32], [32, 64]])
            .step()
            .op("aten::t", us=8, dims=[[64, 32]])
            .op("aten::mm", kernel(GEMM, 20), dims=[[8, 32], [32, 64]])
            .document()
        ),
        {"calls": {"aten::t": 1}, "host_ns": 7_000},
    ),
    Example(
        "a reshape that has to copy is no view",
        lambda: (
            Sketch()
            .step()
            .op("aten::reshape > aten::copy_", kernel(COPY, 20), dims=[[64, 32], [64, 32]])
            .document()
        ),
        None,
    ),
)
