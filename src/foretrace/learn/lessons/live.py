"""The programs of a lesson on this machine: each is recorded once, when a question is about it.

A recording has the name that `foretrace lab run` gives to its setup, so its name says which rung of
the ladder runs the same program. Needs torch; a CPU takes small sizes and the steps that fit it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePath

from msgspec import structs

from foretrace.base import budget
from foretrace.base.errors import ForetraceError, MissingError
from foretrace.learn.ladder.climb import by_recording, visit
from foretrace.learn.lessons.documents import Lesson, LessonStep
from foretrace.learn.lessons.scene import Opens
from foretrace.learn.lessons.sitting import Sitting
from foretrace.record.profiling import need_torch
from foretrace.trace.trace import Trace

Say = Callable[[str], None]


def live_sitting(lesson: Lesson, folder: Path, opens: Opens, say: Say) -> Sitting:
    """A sitting whose programs run here; their traces go to `folder`."""
    with budget.apart():
        need_torch()
        from foretrace.record.experiments.machine import device_name

        device, card = device_name("auto")
    played = fitted(lesson, device)
    reasons = dict.fromkeys(step.skipped for step in played.steps)
    if all(reasons):
        here = f"lesson {lesson.number} asks nothing on a CPU: {'; '.join(reasons)}"
        raise MissingError(f"{here}. Without --live it is played on recordings")
    if device != "cpu":
        say("a text that speaks of a card means that of the recordings")
    return Sitting(played, LiveRecordings(device, card, folder, opens, say))


def fitted(lesson: Lesson, device: str) -> Lesson:
    """The lesson as this device can decide it."""
    if device != "cpu":
        return lesson
    steps = (
        step.cpu if isinstance(step.cpu, LessonStep) else structs.replace(step, skipped=step.cpu)
        for step in lesson.steps
    )
    return structs.replace(lesson, steps=tuple(steps))


class LiveRecordings:
    """Opens a recording by recording its program here instead."""

    def __init__(self, device: str, card: str, folder: Path, opens: Opens, say: Say) -> None:
        self.device, self.card, self.folder = device, card, folder
        self._opens, self._say = opens, say
        self._found: dict[str, Trace | MissingError] = {}

    def __call__(self, path: str) -> Trace:
        """The trace of the same program; `MissingError` where it does not run here."""
        name = PurePath(path).name.removesuffix(".json.gz")
        if name not in self._found:
            try:
                self._found[name] = self._recorded(name)
            except ForetraceError as problem:
                self._found[name] = MissingError(str(problem))
        if isinstance(found := self._found[name], MissingError):
            raise found
        return found

    def _recorded(self, name: str) -> Trace:
        stop = by_recording().get(f"ladder/{name}")
        if stop is None:
            raise MissingError(f"no rung of the ladder runs {name}: play it without --live")
        self._say(f"recording {stop.title(self.device)}, on {self.card} …")
        # in one dtype, what a CPU calls does not depend on the arithmetic that it has
        dtype = "fp32" if self.device == "cpu" else "auto"
        with budget.apart():
            trace = visit(stop, self.device, self.folder, dtype=dtype)
        return self._opens(str(trace))
