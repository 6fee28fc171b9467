"""What the fix that a test file is named after proposes for made-up steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import foretrace as ft
from analyze.rules.sketch import Sketch
from foretrace.analyze.fixes import Proposal, fixes
from foretrace.analyze.fixes._step import Step
from foretrace.model import replay
from foretrace.model.trace import Trace
from opened_traces import open_made

STEPS = 3
Draw = Callable[[Sketch], object]


class FixUnderTest:
    """One fix, and a folder for the traces that are drawn for it."""

    def __init__(self, name: str, folder: Path) -> None:
        (self.fix,) = (each for each in fixes() if each.name == name)
        self.folder = folder

    def found(self, trace: Trace, at: int = 1, steady: bool = True) -> tuple[Step, list[Proposal]]:
        step = Step(trace, replay.graph_of(trace, trace.spans.steps[at], steady), repeats=3)
        lacking = [need for need in self.fix.needs if not trace.has(need)]
        proposals = [] if lacking else list(self.fix.find(step))
        for each in proposals:
            assert len(each.order) <= 62, each.order
            assert len(each.why) <= 90, each.why
            assert each.events or steady, each.order
        return step, proposals

    def drawn(self, draw: Draw) -> Trace:
        """A trace of steps that are all drawn alike."""
        return open_made(stepping(draw), self.folder)

    def proposals(self, draw: Draw) -> list[Proposal]:
        return self.found(self.drawn(draw))[1]

    def goes(self, draw: Draw) -> tuple[Proposal, float, float]:
        """The one proposal, the time of a step now and with it in us, both with the profiler on."""
        step, (proposal,) = self.found(self.drawn(draw))
        times = replay.run(step.graph), replay.run(step.graph, proposal.change)
        return proposal, times[0] / 1e3, times[1] / 1e3

    def stays(self, *draws: Draw) -> None:
        for draw in draws:
            assert self.proposals(draw) == []

    def once(self, draw: Draw) -> list[Proposal]:
        """The proposals for one step alone."""
        sketch = Sketch().step()
        draw(sketch)
        return self.found(open_made(sketch, self.folder), at=0, steady=False)[1]

    def recorded(self, path: Path, at: int = 0) -> list[Proposal]:
        return self.found(ft.open(path, cache=False), at, steady=False)[1]


def stepping(draw: Draw) -> Sketch:
    """Steps that are all drawn alike."""
    sketch = Sketch()
    for _ in range(STEPS):
        draw(sketch.step())
    return sketch


def times_us(proposal: Proposal) -> list[float]:
    """The new GPU times, in microseconds."""
    return [round(ns / 1e3, 1) for ns in proposal.change.length.values()]
