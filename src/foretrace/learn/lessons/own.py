"""A lesson on any trace: questions that it decides, built from what is in it.

`own_gpu` and `own_cpu` propose steps, the most telling first. A step is asked where the trace
decides it: one choice holds and every other one misses, or one number holds. Nothing is asked of a
trace that is incomplete.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import PurePath

from foretrace.base.errors import UsageError
from foretrace.base.units import plural
from foretrace.learn.lessons.facts import MISSING, filled
from foretrace.learn.lessons.marking import right_answer
from foretrace.learn.lessons.own_cpu import cpu_steps
from foretrace.learn.lessons.own_gpu import gpu_steps
from foretrace.learn.lessons.scene import Scene
from foretrace.learn.lessons.sitting import Sitting
from foretrace.model.trace import Trace
from foretrace.read.recordings import typed_as
from foretrace.schema.lesson import HowMany, Lesson, LessonStep, PickOne

MOST = 4  # questions: a transcript has at most 80 lines
FEW = 2  # a lesson of one question is none
NOTHING = "it has no GPU operation with a time, and no op that computes on a CPU"


def own_sitting(trace: Trace, most: int = MOST) -> Sitting:
    """A sitting on one trace; `UsageError` where it decides too little."""
    if trace.ledger.gap:
        raise UsageError(f"no question can be marked on this trace: {trace.ledger.gap}")
    scene = Scene(trace)
    steps = tuple(islice(_decided(scene), most))
    if len(steps) < FEW:
        raise UsageError(f"too few questions can be marked on this trace: {NOTHING}")
    lesson = Lesson(0, "own", f"Your trace, {plural(len(steps), 'question')}", steps, _read(trace))
    return Sitting(lesson, lambda _: trace, {(trace.path, ""): scene})


def _decided(scene: Scene) -> Iterator[LessonStep]:
    for step in cpu_steps(scene) if scene.on_cpu else gpu_steps(scene):
        if _is_decided(step, scene) and _is_told(step, scene):
            yield step


def _is_decided(step: LessonStep, scene: Scene) -> bool:
    ask = step.ask
    if isinstance(ask, HowMany):
        return bool(right_answer(step, scene))
    if not isinstance(ask, PickOne):
        return False
    held = 0
    for choice in ask.choices:
        words = {scene.marked(text).verdict for text in choice.holds}
        if "miss" not in words and "unknown" in words:
            return False
        held += words == {"hit"}
    return held == 1


def _is_told(step: LessonStep, scene: Scene) -> bool:
    """Whether the trace has every fact of the texts."""
    choices = step.ask.choices if isinstance(step.ask, PickOne) else ()
    texts = (step.ask.text, step.why, step.hint, *(choice.misread for choice in choices))
    return not any(MISSING in filled(text, scene) for text in texts)


def _read(trace: Trace) -> tuple[str, ...]:
    name = PurePath(typed_as(trace.path)).name
    more = "--kernels" if len(trace.gpu) else "--ops"
    return (
        f"foretrace look {name} {more}: every row behind these answers",
        "foretrace docs guess: predict anything else, for `foretrace check`",
    )
