"""Marks an answer on the trace, and finds the right one by marking as well."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from foretrace.errors import UsageError
from foretrace.guess import baseline
from foretrace.lessons.facts import filled
from foretrace.lessons.lanes import lanes
from foretrace.lessons.scene import Scene
from foretrace.model.averages import average
from foretrace.schema.documents.lesson import MarkedAnswer
from foretrace.schema.lesson import HowMany, LessonStep, PickOne, Predict
from foretrace.schema.verdict import Verdict

LETTERS = "abcdefgh"
NONE_OF_THEM = "none of these"
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def marked(step: LessonStep, answer: str, scene: Scene) -> MarkedAnswer:
    """How an answer fares, and what decides it; `UsageError` when the answer is not valid."""
    said, predictions, misread = _meaning(step, answer.strip())
    verdicts = [scene.marked(text) for text in predictions]
    errors = [each.why for each in verdicts if each.verdict == "error"]
    if errors:
        raise UsageError(errors[0])
    verdict = _together(verdicts)
    shown = misread if verdict == "miss" else ""
    return MarkedAnswer(
        answer=said,
        verdict=verdict,
        right=right(step, scene),
        measured=_measured(step, verdicts),
        why=filled(step.why, scene),
        misread=filled(shown, scene),
        lanes=lanes(scene, step.show),
        row=average(scene.trace, step.row),
    )


def _meaning(step: LessonStep, answer: str) -> tuple[str, tuple[str, ...], str]:
    """What was said in words, the predictions that it makes, and what it overlooks if wrong."""
    ask = step.ask
    if isinstance(ask, PickOne):
        letters = LETTERS[: len(ask.choices)]
        if len(answer) != 1 or answer.lower() not in letters:
            raise UsageError(f"{answer!r} is not an answer: enter {', '.join(letters)}")
        choice = ask.choices[letters.index(answer.lower())]
        return choice.text, choice.holds, choice.misread
    if isinstance(ask, HowMany):
        number = answer.rstrip("% ").replace(",", "")
        if not _NUMBER.fullmatch(number):
            raise UsageError(f"{answer!r} is not an answer: enter a number")
        return number, (ask.holds.replace("{}", number),), ask.misread.get(number, "")
    return answer, (answer,), ""


def _together(verdicts: Iterable[Verdict]) -> str:
    """All must hit; one miss is a miss."""
    words = {each.verdict for each in verdicts}
    return "miss" if "miss" in words else "unknown" if "unknown" in words else "hit"


def _measured(step: LessonStep, verdicts: Sequence[Verdict]) -> str:
    """What the trace shows, for a free prediction; other answers have `right`."""
    if not isinstance(step.ask, Predict):
        return ""
    return " ".join(filter(None, (verdicts[0].measured, verdicts[0].why)))


def right(step: LessonStep, scene: Scene) -> str:
    """The right answer in words: the choice or the number whose predictions hold."""
    answer = right_answer(step, scene)
    if not isinstance(step.ask, PickOne) or not answer:
        return answer or NONE_OF_THEM
    return step.ask.choices[LETTERS.index(answer)].text


def right_answer(step: LessonStep, scene: Scene) -> str:
    """What a reader would type to be right; empty where no answer is."""
    ask = step.ask
    if isinstance(ask, PickOne):
        found = (
            letter
            for letter, choice in zip(LETTERS, ask.choices, strict=False)
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
