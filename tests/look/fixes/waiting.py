"""Ops of a sketch that wait for the GPU, as `nonzero`, `item` and copies from pageable memory do."""

from __future__ import annotations

from typing import Any

from look.rules.sketch import Sketch, Work, memcpy

DOWN = memcpy("Memcpy DtoH (Device -> Pinned)", 2, 4)


def waits(sketch: Sketch, path: str, *work: Work, **given: Any) -> Sketch:
    """Nested ops that launch this work and end when it has."""
    first = len(sketch.events)
    sketch.op(path, *work, **given).sync("cudaStreamSynchronize")
    end = sketch.events[-1]["ts"] + sketch.events[-1]["dur"]
    for event in sketch.events[first:]:
        if event["cat"] == "cpu_op":
            event["dur"] = round(end - event["ts"], 3)
    return sketch
