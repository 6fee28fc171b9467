"""Worked examples of `hidden_copies`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import COPY, Example, Sketch, kernel


def _sketch(path: str) -> dict[str, Any]:
    return Sketch().step().op(path, kernel(COPY, 8), dims=[[64, 64], [64, 64]]).document()


EXAMPLES = (
    Example(
        "contiguous on a transposed tensor",
        lambda: _sketch("aten::contiguous > aten::clone > aten::copy_"),
        {"count": 1, "causes": [{"cause": "contiguous", "count": 1, "ns": 8000, "bytes": 16384}]},
    ),
    Example("an explicit copy", lambda: _sketch("aten::copy_"), None),
)
