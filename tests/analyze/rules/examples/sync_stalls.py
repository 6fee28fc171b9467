"""Worked examples of `sync_stalls`."""

from __future__ import annotations

from analyze.rules.sketch import ADD, Example, Sketch, kernel


def _sketch(waits: bool) -> Sketch:
    sketch = Sketch().step().op("aten::add", kernel(ADD, 100))
    if waits:
        sketch.sync("cudaStreamSynchronize", "aten::_local_scalar_dense")
    return sketch.op("aten::add", kernel(ADD, 100))


EXAMPLES = (
    Example(
        "an item() between two kernels",
        lambda: _sketch(True).document(),
        {"waits": 1, "calls": {"aten::_local_scalar_dense: cudaStreamSynchronize": 1}},
    ),
    Example("two kernels in a row", lambda: _sketch(False).document(), None),
)
