"""Worked examples of `library_fills`."""

from __future__ import annotations

from analyze.rules.sketch import GEMM, Example, Sketch, kernel, memset

EXAMPLES = (
    Example(
        "a GEMM that clears a counter",
        lambda: Sketch().step().op("aten::mm", memset(0.7), kernel(GEMM, 56)).document(),
        {"count": 1, "ns": 700, "bytes": 4, "ops": {"aten::mm": 1}},
    ),
    Example(
        "an explicit fill",
        lambda: Sketch().step().op("aten::zero_", memset(3, 4096)).document(),
        None,
    ),
)
