"""Worked examples of `idle_gaps`."""

from __future__ import annotations

from analyze.rules.sketch import GEMM, Example, Sketch, kernel


def _sketch(pause: float) -> Sketch:
    sketch = Sketch().step()
    for _ in range(4):
        sketch.op("aten::mm", kernel(GEMM, 200)).pause(pause)
    return sketch


EXAMPLES = (
    Example(
        "the host does something else for 400 us after each launch",
        lambda: _sketch(400).document(),
        {"gaps": 4},
    ),
    Example("the host runs ahead", lambda: _sketch(0).document(), None),
)
