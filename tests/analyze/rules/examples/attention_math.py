"""Worked examples of `attention_math`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import GEMM, Example, Sketch, kernel
from foretrace.analyze.rules.attention_math import FALLBACK

SOFTMAX = (
    "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10, "
    "false, false>"
    "(c10::BFloat16*, c10::BFloat16 const*, int, int, int, bool const*, int, bool)"
)


def _sketch(path: str, after: str = "aten::bmm") -> dict[str, Any]:
    scores = [128, 1024, 1024]
    return (
        Sketch()
        .step()
        .op(f"{path}aten::bmm", kernel(GEMM, 90), dims=[[128, 1024, 64], [128, 64, 1024]])
        .op(
            f"{path}aten::_softmax",
            kernel(SOFTMAX, 120),
            dims=[scores, [], []],
            concrete=["", "-1", "False"],
        )
        .op(f"{path}{after}", kernel(GEMM, 90), dims=[scores, [128, 1024, 64]])
        .document()
    )


EXAMPLES = (
    Example(
        "the math fallback",
        lambda: _sketch(f"{FALLBACK} > "),
        {"calls": 3, "kernels": 3, "ns": 300000},
    ),
    Example("written by hand", lambda: _sketch(""), {"calls": 1, "kernels": 3, "ns": 300000}),
    Example(
        "a softmax that feeds nothing of its size",
        lambda: (
            Sketch()
            .step()
            .op("aten::_softmax", kernel(SOFTMAX, 120), dims=[[128, 1024], [], []])
            .document()
        ),
        None,
    ),
)
