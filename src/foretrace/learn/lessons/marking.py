"""Marks an answer on the trace, and finds the right one by marking as well."""

from __future__ import annotations

import re
from collections.abc import Iterable

from foretrace.analyze.guess import baseline
from foretrace.base.errors import UsageError
from foretrace.learn.lessons.facts import filled
from foretrace.learn.lessons.lanes import lanes
from foretrace.learn.lessons.scene import Scene
from foretrace.model.averages import average
from foretrace.schema.documents.lesson import MarkedAnswer
from foretrace.schema.lesson import HowMany, LessonStep, PickChoice, PickOne, Predict
from foretrace.schema.verdict import Verdict

DIGITS = "12345678"  # of choices: letters would hide the keys `b` and `s`
LONGEST = 15  # digits of a number: more than any answer has, and as many as a float keeps
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def marked(step: LessonStep, answer: str, scene: Scene) -> MarkedAnswer:
    """How an answer fares, and what decides it; `UsageError` when the answer is not valid."""
    said, predictions, misread = _meaning(step, answer.strip())
    verdicts = [scene.marked(text) for text in predictions]
    errors = [each.why for each in verdicts if each.verdict == "error"]
    if errors:
        raise UsageError(errors[0])
    verdict, free = _together(verdicts), isinstance(step.ask, Predict)
    right = "" if free else right_answer(step, scene)
    return MarkedAnswer(
        answer=said,
        verdict=verdict,
        right=right,
        text=_choice(step.ask, right).text if isinstance(step.ask, PickOne) and right else "",
        measured=measured_text(verdicts[0]) if free else "",
        why=_why(step, verdicts, scene),
        misread=filled(misread, scene) if verdict == "miss" else "",
        lanes=lanes(scene, step.show),
        row=average(scene.trace, _row(step, scene)),
    )


def measured_text(verdict: Verdict) -> str:
    """What was measured and, where one is known, the likely reason for a miss."""
    return ". ".join(filter(None, (verdict.measured, verdict.why))).removesuffix(".")


def _row(step: LessonStep, scene: Scene) -> str:
    """The op of the row; a compiler numbers its kernels, so that one may be a fact."""
    return filled(step.row, scene) if step.row.startswith("{name of ") else step.row


def _why(step: LessonStep, verdicts: Iterable[Verdict], scene: Scene) -> str:
    """The reason; what the trace lacks where it does not decide."""
    lacks = [each.why for each in verdicts if each.verdict == "unknown"]
    missed = any(each.verdict == "miss" for each in verdicts)
    return filled(step.why, scene) if missed or not lacks else f"{lacks[0]}."


def _meaning(step: LessonStep, answer: str) -> tuple[str, tuple[str, ...], str]:
    """What was said, the predictions that it makes, and what it overlooks if it is wrong.

    A wrong number that the lesson does not foresee gets the hint.
    """
    ask = step.ask
    if isinstance(ask, PickOne):
        choice = _choice(ask, answer)
        return answer, choice.holds, choice.misread
    if isinstance(ask, HowMany):
        number = answer.rstrip("% ").replace(",", "")
        if not _NUMBER.fullmatch(number) or len(number) > LONGEST:
            raise UsageError(f"{answer!r} is not an answer: enter a number")
        return number, (ask.holds.replace("{}", number),), ask.misread.get(number, step.hint)
    return answer, (answer,), ""


def _choice(ask: PickOne, digit: str) -> PickChoice:
    choices = dict(zip(DIGITS, ask.choices, strict=False))
    if digit not in choices:
        raise UsageError(f"{digit!r} is not an answer: enter {', '.join(choices)}")
    return choices[digit]


def _together(verdicts: Iterable[Verdict]) -> str:
    """All must hit; one miss is a miss."""
    words = {each.verdict for each in verdicts}
    return "miss" if "miss" in words else "unknown" if "unknown" in words else "hit"


def right_answer(step: LessonStep, scene: Scene) -> str:
    """What a reader would type to be right; empty where no answer is."""
    ask = step.ask
    if isinstance(ask, PickOne):
        found = (
            digit
            for digit, choice in zip(DIGITS, ask.choices, strict=False)
            if _holds(scene, choice.holds)
        )
        return next(found, "")
    if isinstance(ask, HowMany):
        stated = scene.marked(ask.holds.replace("{}", "0")).measured
        numbers = (number.replace(",", "") for number in _NUMBER.findall(stated))
        return next(
            (each for each in numbers if _holds(scene, [ask.holds.replace("{}", each)])), ""
        )
    return next((text for text, _ in baseline.holding(scene.trace)), "")


def _holds(scene: Scene, predictions: Iterable[str]) -> bool:
    return all(scene.marked(text).verdict == "hit" for text in predictions)
