"""What the questions on any trace share: where they look, names from the trace, ranges to pick."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import pairwise

from foretrace.analyze.guess.tokens import LONGEST
from foretrace.base.units import plural
from foretrace.learn.lessons.scene import Scene
from foretrace.schema.lesson import HowMany, LessonStep, PickChoice, PickOne, Program

NAMES = 6  # that a line lists
SHORT = 24  # characters of a name that a question repeats
_BRACES = str.maketrans("{}", "()")  # braces in a lesson's text hold facts


class OwnSteps:
    """Steps about the call of a trace that is drawn: where they look, and how one is made."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.where, self.program = scene, place_text(scene), program(scene)

    def _step(self, ask: PickOne | HowMany, why: str, hint: str, show: str, row: str) -> LessonStep:
        return LessonStep(self.program, ask, why, hint, show, row)


def place_text(scene: Scene) -> str:
    """`one step`, `one call of mlp_fwd`, `the whole recording`."""
    name = scene.scope.name
    call = f"one call of {said(name)}" if len(name) <= SHORT else "one call"
    places = {"steps": "one step", "step": f"step {name}", "region": call}
    return places.get(scene.scope.kind, "the whole recording")


def said(name: str) -> str:
    """A name from the trace as a text of a lesson can have it."""
    return (name if len(name) <= 60 else f"{name[:59]}…").translate(_BRACES)


def program(scene: Scene) -> Program:
    """What can be said of a program before anything is predicted: its steps and ranges."""
    trace, calls = scene.trace, len(scene.calls)
    whole = "the whole recording: it has no steps, and no range holds most of the work"
    several = len(trace.spans.steps)
    units = {
        "steps": plural(calls, "step"),
        "step": f"step {scene.scope.name}, the one with the median GPU time of {several}",
        "region": f"{calls} x {said(scene.region)}",
    }
    known = [name for name in trace.spans.region_groups() if not name.startswith("##")]
    ranges = [name for name in known if name != scene.region]
    shown = [said(name) for name in ranges[:NAMES]]
    more = [f"{len(ranges) - NAMES} more"] if len(ranges) > NAMES else []
    lines = [units.get(scene.scope.kind, whole)]
    lines += textwrap.wrap(f"ranges: {', '.join([*shown, *more])}", 76) if shown else []
    return Program(trace.path, "\n".join(lines))


def pattern(name: str, others: Sequence[str]) -> str:
    """How a prediction spells a name that may hold anything; empty where that is not possible."""
    plain = next(
        (at for at, char in enumerate(name) if char in '"{}*' or not char.isprintable()), 0
    )
    cut = min(plain or len(name), LONGEST // 4)
    if cut == len(name):
        return name
    alone = sum(other.startswith(name[:cut]) for other in others) == 1
    return f"{name[:cut]}*" if cut and alone else ""


def ranges(
    scene: Scene, text: str, states: str, edges: Sequence[str], low: str, high: str
) -> PickOne:
    """Ranges between edges, one of which holds; `states` has `CMP` and `EDGE` in a prediction.

    `low` is what a range below the right one overlooks, `high` one above it.
    """
    least = [states.replace("CMP", ">=").replace("EDGE", edge) for edge in edges]
    less = [states.replace("CMP", "<").replace("EDGE", edge) for edge in edges]
    found: list[tuple[str, tuple[str, ...]]] = [(f"below {edges[0]}", (less[0],))]
    for at, (low_edge, high_edge) in enumerate(pairwise(edges)):
        found.append((f"{low_edge} to {high_edge}", (least[at], less[at + 1])))
    found.append((f"{edges[-1]} or more", (least[-1],)))
    held = [all(scene.marked(each).verdict == "hit" for each in holds) for _, holds in found]
    right = held.index(True) if True in held else len(held)
    return PickOne(
        text,
        tuple(
            PickChoice(name, holds, low if at < right else high)
            for at, (name, holds) in enumerate(found)
        ),
    )
