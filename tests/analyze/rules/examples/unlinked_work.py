"""Worked examples of `unlinked_work`."""

from __future__ import annotations

from analyze.rules.sketch import ADD, GEMM, Example, Sketch, kernel

EXAMPLES = (
    Example(
        "a kernel queued before the recording",
        lambda: Sketch().stray(kernel(GEMM, 50)).step().op("aten::add", kernel(ADD, 5)).document(),
        {"count": 1, "ns": 50000},
    ),
    Example(
        "everything launched",
        lambda: Sketch().step().op("aten::add", kernel(ADD, 5)).document(),
        None,
    ),
)
