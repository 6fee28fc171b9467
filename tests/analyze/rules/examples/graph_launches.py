"""Worked examples of `graph_launches`."""

from __future__ import annotations

from analyze.rules.sketch import ADD, Example, Sketch, kernel

EXAMPLES = (
    Example(
        "one launch, three kernels",
        lambda: Sketch().step().graph(*[kernel(ADD, 5)] * 3).document(),
        {"launches": 1, "work": 3, "per_launch": 3.0, "ns": 15000, "share": 1.0, "host_ns": 10000},
    ),
    Example(
        "plain launches", lambda: Sketch().step().op("aten::add", kernel(ADD, 5)).document(), None
    ),
)
