"""A lesson while it is played: where it stands and what was answered. It prints nothing."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from foretrace.base.errors import MissingError, UsageError
from foretrace.learn.lessons.facts import filled
from foretrace.learn.lessons.marking import marked
from foretrace.learn.lessons.scene import Opens, Scene, opened
from foretrace.model.trace import Trace
from foretrace.schema.documents.lesson import AskedStep, LessonDocument, MarkedAnswer, PlayedStep
from foretrace.schema.lesson import Lesson, LessonStep, PickOne


class Sitting:
    """One reader and one lesson. `opens` turns the path of a recording into a trace.

    `scenes` are those that are open already, by recording and A.
    """

    def __init__(
        self, lesson: Lesson, opens: Opens, scenes: dict[tuple[str, str], Scene] | None = None
    ) -> None:
        self.lesson, self.at = lesson, 0
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
        """A question as it is shown: the code once, facts measured."""
        step, count = self.lesson.steps[at], len(self.lesson.steps)
        if reason := self.unasked(at):
            name = step.program.recording
            return AskedStep(at + 1, count, name, "", "", "", [], "", skipped=reason)
        scene, ask = self.scene(step), step.ask
        shown = [each.program for each in self.lesson.steps[:at] if not each.skipped]
        return AskedStep(
            number=at + 1,
            of=count,
            recording=scene.name,
            device=scene.device,
            code="" if shown[-1:] == [step.program] else step.program.code,
            text=filled(ask.text, scene),
            choices=[choice.text for choice in ask.choices] if isinstance(ask, PickOne) else [],
            hint=filled(step.hint, scene),
        )

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
