"""Worked examples of `bias_epilogue`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import GEMM, Example, Sketch, kernel, memcpy


def _sketch(bias: list[int], *before: dict[str, Any]) -> dict[str, Any]:
    matmul = kernel(GEMM, 20)
    return (
        Sketch()
        .step()
        .op("aten::addmm", *before, matmul, dims=[bias, [8, 32], [32, 64]])
        .document()
    )


EXAMPLES = (
    Example(
        "an addmm with a bias vector and one kernel",
        lambda: _sketch([64]),
        {"matmuls": 1, "activations": [], "avoided_bytes": 2 * 8 * 64 * 2},
    ),
    Example(
        "a matrix as bias is copied first",
        lambda: _sketch([8, 64], memcpy("Memcpy DtoD (Device -> Device)", 5, 1024)),
        None,
    ),
)
