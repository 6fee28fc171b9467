"""Worked examples of `old_kernels`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import GEMM, Example, Sketch, kernel


def _sketch(name: str) -> dict[str, Any]:
    return (
        Sketch("NVIDIA H100 80GB HBM3")
        .step()
        .op("aten::mm", kernel(name, 30), dims=[[128, 512], [512, 512]])
        .document()
    )


EXAMPLES = (
    Example(
        "an Ampere kernel on an H100",
        lambda: _sketch("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn"),
        {"count": 1, "ns": 30000},
    ),
    Example("a Hopper kernel on an H100", lambda: _sketch(GEMM), None),
)
