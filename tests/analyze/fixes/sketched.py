"""What one fix proposes for a made-up step."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import foretrace as ft
from analyze.rules.sketch import Sketch
from foretrace.analyze.fixes import Proposal
from foretrace.analyze.fixes._step import Step
from foretrace.model import replay

Draw = Callable[[Sketch], object]


def proposed(fix: str, draw: Draw, folder: Path) -> list[Proposal]:
    """The proposals of a fix for the one step of a sketch on an H200."""
    sketch = Sketch().step()
    draw(sketch)
    path = folder / "trace.json"
    path.write_text(json.dumps(sketch.document()))
    return found_in(fix, path)


def found_in(fix: str, path: Path, step: int = 0) -> list[Proposal]:
    """The proposals of a fix for one step of a trace."""
    trace = ft.open(path, cache=False)
    graph = replay.graph_of(trace, trace.spans.steps[step], False)
    found = import_module(f"foretrace.analyze.fixes.{fix}")._find.find(Step(trace, graph))
    proposals = list(found)
    for each in proposals:
        assert len(each.order) <= 62, each.order
        assert len(each.why) <= 90, each.why
        assert each.events
    return proposals


def times_us(proposal: Proposal) -> list[float]:
    """The new GPU times, in microseconds."""
    return [round(ns / 1e3, 1) for ns in proposal.change.length.values()]
