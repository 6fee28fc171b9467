"""A lesson while it is played: marks answers, and keeps where the reader stands.

The right answer is found by marking as well. Answers are kept in the user's state folder; where
that file cannot be read or written, one line says so and nothing else changes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePath

import msgspec
from msgspec import Struct, field

from foretrace.base.errors import MissingError, UsageError, warn
from foretrace.base.files import write_bytes
from foretrace.check.holding import holding
from foretrace.check.verdict import Verdict
from foretrace.compare.articles import published
from foretrace.learn.lessons.documents import (
    AskedStep,
    HowMany,
    Lesson,
    LessonDocument,
    LessonStep,
    MarkedAnswer,
    PickChoice,
    PickOne,
    PlayedStep,
    Predict,
)
from foretrace.learn.lessons.scene import Opens, Scene, filled, lanes, opened
from foretrace.trace.recording import average
from foretrace.trace.trace import Trace

DIGITS = "12345678"  # of choices: letters would hide the keys `b` and `s`
LONGEST = 15  # digits of a number: more than any answer has, and as many as a float keeps
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
)  # fmt: skip
_REFERS = re.compile("^the same|still")  # to the program before


def marked(step: LessonStep, answer: str, scene: Scene) -> MarkedAnswer:
    """How an answer fares, and what decides it; `UsageError` when the answer is not valid."""
    said, predictions, misread = _meaning(step, answer.strip())
    verdicts = [scene.marked(text) for text in predictions]
    errors = [each.why for each in verdicts if each.verdict == "error"]
    if errors:
        raise UsageError(errors[0])
    words = {each.verdict for each in verdicts}  # all must hit; one miss is a miss
    verdict = next((each for each in ("miss", "unknown") if each in words), "hit")
    free = isinstance(step.ask, Predict)
    right = "" if free else right_answer(step, scene)
    # The reason; what the trace lacks where it does not decide.
    lacks = [each.why for each in verdicts if each.verdict == "unknown"]
    missed = any(each.verdict == "miss" for each in verdicts)
    return MarkedAnswer(
        answer=said,
        verdict=verdict,
        right=right,
        text=_choice(step.ask, right).text if isinstance(step.ask, PickOne) and right else "",
        measured=measured_text(verdicts[0]) if free else "",
        why=filled(step.why, scene) if missed or not lacks else f"{lacks[0]}.",
        misread=filled(misread, scene) if verdict == "miss" else "",
        lanes=lanes(scene, step.show),
        # a compiler numbers its kernels, so that the op of a row may be a fact
        row=average(scene.trace, filled(step.row, scene) if step.row.startswith("{") else step.row),
        published=published(step.a100),
    )


def measured_text(verdict: Verdict) -> str:
    """What was measured and, where one is known, the likely reason for a miss."""
    return ". ".join(filter(None, (verdict.measured, verdict.why))).removesuffix(".")


def _meaning(step: LessonStep, answer: str) -> tuple[str, tuple[str, ...], str]:
    """What was said, the predictions that it makes, and what it overlooks if it is wrong.

    A wrong number that the lesson does not foresee gets the hint.
    """
    ask = step.ask
    if isinstance(ask, PickOne):
        digit = _digit(ask, answer)
        choice = _choice(ask, digit)
        return digit, choice.holds, choice.misread
    if isinstance(ask, HowMany):
        number = answer.lower().removesuffix("percent").rstrip("% ").replace(",", "")
        number = str(_WORDS.index(number)) if number in _WORDS else number
        if not _NUMBER.fullmatch(number) or len(number) > LONGEST:
            digits = f" of at most {LONGEST} digits" if _NUMBER.fullmatch(number) else ""
            raise UsageError(f"{answer!r} is not an answer: enter a number{digits}")
        return number, (ask.holds.replace("{}", number),), ask.misread.get(number, step.hint)
    return answer, (answer,), ""


def _digit(ask: PickOne, answer: str) -> str:
    """The digit of the choice that an answer names: by digit, by number word, or by its words."""
    said = answer.lower().split()
    if len(said) == 1 and said[0] in _WORDS:
        return str(_WORDS.index(said[0]))
    texts = [re.findall(r"\w+%?", choice.text.lower()) for choice in ask.choices]
    given = re.findall(r"\w+%?", answer.lower())
    whole = [at for at, words in enumerate(texts, 1) if words == given]
    part = [at for at, words in enumerate(texts, 1) if given and {*given} <= {*words}]
    found = whole or part
    return answer if answer in DIGITS or len(found) != 1 else str(found[0])


def _choice(ask: PickOne, digit: str) -> PickChoice:
    choices = dict(zip(DIGITS, ask.choices, strict=False))
    if digit not in choices:
        raise UsageError(f"{digit!r} is not an answer: enter {', '.join(choices)}")
    return choices[digit]


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
    return next((text for text, _ in holding(scene.trace)), "")


def _holds(scene: Scene, predictions: Iterable[str]) -> bool:
    return all(scene.marked(text).verdict == "hit" for text in predictions)


class Sitting:
    """One reader and one lesson. `opens` turns the path of a recording into a trace.

    `scenes` are those that are open already, by recording and A.
    """

    def __init__(
        self, lesson: Lesson, opens: Opens, scenes: dict[tuple[str, str], Scene] | None = None
    ) -> None:
        self.lesson, self.at = lesson, 0
        self._began = 0  # the question that a resumed lesson began with
        self.marks: list[MarkedAnswer | None] = [None] * len(lesson.steps)
        self.answers: list[str | None] = [None] * len(lesson.steps)
        self._opens, self._scenes = opens, {} if scenes is None else scenes

    @property
    def step(self) -> LessonStep | None:
        """The question that is open; None at the end."""
        return self.lesson.steps[self.at] if self.at < len(self.lesson.steps) else None

    def scene(self, step: LessonStep) -> Scene:
        """The recording that a step is about, opened once."""
        key = step.program.recording, step.against
        if key not in self._scenes:
            self._scenes[key] = opened(self._opens, *key)
        return self._scenes[key]

    @property
    def traces(self) -> list[Trace]:
        """The recordings that were opened."""
        return [scene.trace for scene in self._scenes.values()]

    def unasked(self, at: int) -> str:
        """Why a question cannot be asked here: its program does not run; empty where it can."""
        step = self.lesson.steps[at]
        if step.skipped:
            return step.skipped
        try:
            self.scene(step)
        except MissingError as lacking:
            return str(lacking)
        return ""

    def asked(self, at: int) -> AskedStep:
        """A question as it is shown: the code once in each sitting, facts measured."""
        step, count = self.lesson.steps[at], len(self.lesson.steps)
        if reason := self.unasked(at):
            name = step.program.recording
            return AskedStep(at + 1, count, name, "", "", "", [], "", skipped=reason)
        scene, ask = self.scene(step), step.ask
        name = PurePath(scene.trace.path).name.removesuffix(".gz").removesuffix(".json")
        unnamed = "CPU" if scene.on_cpu else "GPU not named"
        return AskedStep(
            number=at + 1,
            of=count,
            recording=name,
            device=scene.trace.about.device or unnamed,
            code=self._code(at),
            text=filled(ask.text, scene),
            choices=[choice.text for choice in ask.choices] if isinstance(ask, PickOne) else [],
            hint=filled(step.hint, scene),
        )

    def _code(self, at: int) -> str:
        """The program, unless it is above; a resumed one with those that it refers to."""
        steps = [*self.lesson.steps[:at], self.lesson.steps[at]]
        programs = [step.program.code for step in steps if not step.skipped]
        if at > self._began:
            return "" if programs[-2:-1] == programs[-1:] else programs[-1]
        needed = [programs[-1]]
        for code in reversed(programs):
            if _REFERS.search(needed[0]) and code != needed[0]:
                needed.insert(0, code.strip())
        return "\n# then ".join(needed)

    def answer(self, text: str) -> MarkedAnswer:
        """Mark an answer to the open question and go on; `UsageError` when it is not valid."""
        step = self.lesson.steps[self.at]
        found = marked(step, text, self.scene(step))
        self._note(found, text.strip())
        return found

    def skip(self) -> None:
        """Go on without an answer."""
        self._note(None, None)

    def _note(self, found: MarkedAnswer | None, text: str | None) -> None:
        self.marks[self.at], self.answers[self.at] = found, text
        self.at += 1

    def back(self) -> None:
        """Open the question before that can be asked, unless this is the first."""
        before = (at for at in reversed(range(self.at)) if not self.unasked(at))
        self.at = next(before, self.at)

    def resume(self, answers: Iterable[str | None]) -> None:
        """Give the answers of an earlier sitting again, as far as the lesson still takes them."""
        with suppress(UsageError):
            for text in answers:
                self.skip() if text is None else self.answer(text)
        self._began = self.at

    @property
    def hits(self) -> int:
        """How many answers were right."""
        return sum(mark is not None and mark.verdict == "hit" for mark in self.marks[: self.at])

    def document(self) -> LessonDocument:
        """The lesson as far as it was played."""
        marks = self.marks[: self.at]
        steps = [PlayedStep(self.asked(at), mark) for at, mark in enumerate(marks)]
        verdicts = [mark.verdict if mark else "skipped" for mark in marks]
        not_asked = sum(bool(step.asked.skipped) for step in steps)
        return LessonDocument(
            *(1, self.lesson.number, self.lesson.name, self.lesson.title),
            hits=self.hits,
            misses=verdicts.count("miss"),
            skipped=verdicts.count("skipped") - not_asked,
            steps=steps,
            read=list(self.lesson.read),
            not_asked=not_asked,
        )


class KeptLesson(Struct, frozen=True):
    """The answers so far, one per question; None where it was skipped."""

    answers: list[str | None]
    of: int
    hits: int

    @property
    def finished(self) -> bool:
        """Whether every question was answered or skipped."""
        return len(self.answers) >= self.of

    @property
    def text(self) -> str:
        """How it stands, for a list."""
        if self.finished:
            return f"{self.hits} of {self.of} right"
        return f"at question {len(self.answers) + 1}"


class Progress(Struct, frozen=True):
    """Every lesson by name."""

    schema: int = 1
    lessons: dict[str, KeptLesson] = field(default_factory=dict)


def progress_file() -> Path | None:
    """`lessons.json` in the user's state folder; None for a user who has no home."""
    try:
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError:  # no HOME, and no such user
        return None
    return Path(base) / "foretrace" / "lessons.json"


def read_progress() -> Progress:
    """What is kept; nothing where there is no file, or one that is not ours."""
    path = progress_file()
    try:
        return msgspec.json.decode(path.read_bytes(), type=Progress) if path else Progress()
    except FileNotFoundError:
        return Progress()
    except (OSError, ValueError) as problem:
        warn(f"progress is not read: {path}: {problem}")
        return Progress()


def keep_progress(name: str, kept: KeptLesson) -> None:
    """Note how far a lesson went: the file is replaced as a whole."""
    path = progress_file()
    if path is None:
        return
    lessons = {**read_progress().lessons, name: kept}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, msgspec.json.encode(Progress(lessons=lessons)))
    except OSError as problem:
        warn(f"progress is not kept: {path}: {problem.strerror or problem}")
