"""Worked examples of `casts`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import COPY, Example, Sketch, kernel


def _sketch(source: str) -> dict[str, Any]:
    return (
        Sketch()
        .step()
        .op(
            "aten::to > aten::_to_copy > aten::copy_",
            kernel(COPY, 8),
            dims=[[64, 64], [64, 64]],
            types=["float", source],
        )
        .document()
    )


EXAMPLES = (
    Example(
        "bf16 to float32",
        lambda: _sketch("c10::BFloat16"),
        {"count": 1, "casts": [{"cast": "bf16 -> f32", "count": 1, "ns": 8000, "bytes": 24576}]},
    ),
    Example("a copy of one type", lambda: _sketch("float"), None),
)
