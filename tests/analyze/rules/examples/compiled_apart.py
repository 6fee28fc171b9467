"""Worked examples of `compiled_apart`: a recorded compile with its records, and eager code."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from analyze.rules.sketch import ADD, Example, Sketch, kernel

UNFUSABLE = Path(__file__).parents[3] / "data" / "compile" / "unfusable"


def _eager() -> dict[str, Any]:
    return Sketch().step().op("aten::add", kernel(ADD, 8)).document()


def _broken() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress((UNFUSABLE / "trace.json.gz").read_bytes()))
    return found


EXAMPLES = (
    Example("eager code has no graphs", _eager, None),
    Example(
        "a graph break between cumsum and sort",
        _broken,
        {"breaks": [{"line": "record.py:52", "reason": "Call to `torch._dynamo.graph_break()`"}]},
        UNFUSABLE,
    ),
)
