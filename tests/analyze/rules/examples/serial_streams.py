"""Worked examples of `serial_streams`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import GEMM, Example, Sketch, kernel


def _sketch(*streams: int, us: float = 100, pause: float = 0) -> dict[str, Any]:
    sketch = Sketch().step()
    for stream in streams:
        sketch.op("aten::mm", kernel(GEMM, us, stream=stream)).pause(pause)
    return sketch.document()


def _overlapping() -> dict[str, Any]:
    document = _sketch(7, 8)
    kernels = [event for event in document["traceEvents"] if event["cat"] == "kernel"]
    kernels[1]["ts"] = kernels[0]["ts"] + 50
    return document


EXAMPLES = (
    Example(
        "each waits for the other",
        lambda: _sketch(7, 8, 7, 8),
        {"streams": [7, 8], "waited": 3, "launched_late": 0, "busy_ns": [200000, 200000]},
    ),
    Example(
        "the host launches late",
        lambda: _sketch(7, 8, pause=500),
        {"waited": 0, "launched_late": 1},
    ),
    Example("one stream", lambda: _sketch(7, 7), None),
    Example("half of it overlaps", _overlapping, None),
)
