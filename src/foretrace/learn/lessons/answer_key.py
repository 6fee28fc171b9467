"""Marks every answer to a lesson beforehand: what a page carries in place of the recordings."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor

from msgspec.structs import replace

from foretrace.base.errors import UsageError
from foretrace.learn.lessons.marking import DIGITS, marked
from foretrace.learn.lessons.predictable import predictable
from foretrace.learn.lessons.scene import Scene
from foretrace.learn.lessons.sitting import Sitting
from foretrace.schema.answer_key import LessonKey, RightRange, StepKey
from foretrace.schema.documents.lesson import AskedStep
from foretrace.schema.lesson import HowMany, LessonStep, PickOne

DECIMALS = range(4)  # more than anybody types; the page rounds what has more
_OTHER = "987654321"  # a number that nobody gives: how all the others fare
_FURTHEST = 2**40  # where the search for the end of a range stops


def answer_key(sitting: Sitting, kept_as: str = "") -> LessonKey:
    """Every question of a lesson with every answer; progress has it under `kept_as`, if at all."""
    lesson = sitting.lesson
    steps = [_step(sitting, at) for at in range(len(lesson.steps))]
    return LessonKey(lesson.number, kept_as, lesson.title, steps, list(lesson.read))


def _step(sitting: Sitting, at: int) -> StepKey:
    step, asked = sitting.lesson.steps[at], sitting.asked(at)
    if asked.skipped:
        return StepKey(asked, "skipped", {}, "")
    scene, asked = sitting.scene(step), replace(asked, code=step.program.code)
    if isinstance(step.ask, PickOne):
        digits = DIGITS[: len(step.ask.choices)]
        marks = {digit: marked(step, digit, scene) for digit in digits}
        return StepKey(asked, "choice", marks, marks["1"].right)
    if isinstance(step.ask, HowMany):
        return _number(step, step.ask, scene, asked)
    marks = {"": marked(step, "kernels >= 0", scene)}
    return StepKey(
        asked,
        "prediction",
        marks,
        "",
        predictable=predictable(scene, f"{step.ask.text} {step.hint} {step.why}"),
    )


def _number(step: LessonStep, ask: HowMany, scene: Scene, asked: AskedStep) -> StepKey:
    """The right number, those that the lesson foresees, and any other."""
    other = marked(step, _OTHER, scene)
    given = filter(None, (other.right, *ask.misread))
    marks = {"": other} | {number: marked(step, number, scene) for number in given}

    def verdict(number: str) -> str:
        try:
            return scene.marked(ask.holds.replace("{}", number)).verdict
        except UsageError:  # the prediction takes whole numbers alone
            return "error"

    decimals = DECIMALS[:1] if verdict("0.5") == "error" else DECIMALS
    ranges = [_range(verdict, other.right or "0", each) for each in decimals]
    return StepKey(asked, "number", marks, other.right, ranges)


def _range(verdict: Callable[[str], str], right: str, decimals: int) -> RightRange:
    """The numbers of so many decimals that hit: those around one that does."""

    def hits(at: int) -> bool:
        return at >= 0 and verdict(f"{at / 10**decimals:.{decimals}f}") == "hit"

    value = float(right) * 10**decimals
    starts = [at for at in (floor(value), ceil(value)) if hits(at)]
    if not starts:
        return RightRange(1, 0)
    return RightRange(_end(hits, starts[0], -1), _end(hits, starts[0], 1))


def _end(hits: Callable[[int], bool], start: int, way: int) -> int:
    """The last number that hits, up or down from one that does."""
    inside, outside = 0, 1
    while outside < _FURTHEST and hits(start + way * outside):
        inside, outside = outside, outside * 2
    while outside - inside > 1:
        middle = (inside + outside) // 2
        inside, outside = (middle, outside) if hits(start + way * middle) else (inside, middle)
    return start + way * inside
