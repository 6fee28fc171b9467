"""Worked examples of `cold_start`."""

from __future__ import annotations

from analyze.rules.sketch import ADD, Example, Sketch, kernel


def _sketch(first: float) -> dict[str, object]:
    sketch = Sketch()
    for us in (first, 100, 110):
        sketch.step().op("aten::add", kernel(ADD, 5), us=us)
    return sketch.document()


EXAMPLES = (
    Example(
        "300 us, then 100 and 110",
        lambda: _sketch(300),
        {"first_ns": 300000, "usual_ns": 105000, "ratio": 2.857},
    ),
    Example("three steps of the same length", lambda: _sketch(104), None),
)
