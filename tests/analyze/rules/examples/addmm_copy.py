"""Worked examples of `addmm_copy`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import GEMM, Example, Sketch, kernel, memcpy


def _sketch(*before: dict[str, Any]) -> dict[str, Any]:
    return (
        Sketch()
        .step()
        .op("aten::addmm", *before, kernel(GEMM, 20), dims=[[64, 64], [64, 32], [32, 64]])
        .document()
    )


EXAMPLES = (
    Example(
        "a matrix as bias",
        lambda: _sketch(memcpy("Memcpy DtoD (Device -> Device)", 5, 8192)),
        {"count": 1, "ns": 5000, "bytes": 16384},
    ),
    Example("a matmul without a copy", _sketch, None),
)
