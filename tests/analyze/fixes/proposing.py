"""What one fix proposes for a made-up trace of equal steps, and the times that the replay gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from analyze.rules.sketch import Sketch
from foretrace.analyze.fixes import Proposal, fixes
from foretrace.analyze.fixes._step import Step
from foretrace.model import replay
from foretrace.model.trace import Trace
from opened_traces import open_made

STEPS = 3


def stepping(build: Callable[[Sketch], object]) -> Sketch:
    """Steps that are all built alike."""
    sketch = Sketch()
    for _ in range(STEPS):
        build(sketch.step())
    return sketch


def step_of(trace: Trace) -> Step:
    return Step(trace, replay.graph_of(trace, trace.spans.steps[1], steady=True), repeats=3)


def proposals(name: str, trace: Trace) -> list[Proposal]:
    fix = next(each for each in fixes() if each.name == name)
    lacking = [need for need in fix.needs if not trace.has(need)]
    found = [] if lacking else list(fix.find(step_of(trace)))
    assert all(len(each.order) < 65 and len(each.why) < 95 for each in found)
    return found


def proposed(name: str, build: Callable[[Sketch], object], folder: Path) -> list[Proposal]:
    """What the fix proposes for such steps."""
    return proposals(name, open_made(stepping(build), folder))


def after_us(name: str, build: Callable[[Sketch], object], folder: Path) -> tuple[float, float]:
    """The time of a step now, and with the first proposal, both with the profiler on."""
    trace = open_made(stepping(build), folder)
    step, found = step_of(trace), proposals(name, trace)
    return replay.run(step.graph) / 1e3, replay.run(step.graph, found[0].change) / 1e3
