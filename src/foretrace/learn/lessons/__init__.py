"""Lessons: a program is shown, the reader predicts, and the trace answers at once.

A file of `texts` holds text, code and questions, and no answer: a `scene` is a recording that marks
predictions and measures facts, a `sitting` is a lesson while it is played, and `own` makes
questions about any trace. Everything here returns Structs of `documents`; `lines` shows them at a
terminal, `lesson_page` as a page. Other packages add lessons through entry points in the group
`foretrace.lessons`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from msgspec import convert

from foretrace.base import plugins
from foretrace.base.errors import UsageError
from foretrace.learn.lessons.documents import (
    HowMany,
    Lesson,
    LessonStep,
    PickChoice,
    PickOne,
    Predict,
    Program,
)

_TOUR = ("matmul_add", "linear", "compile_it")


def lessons() -> list[Lesson]:
    """Every lesson, in the order of their numbers."""
    found = [*_shipped(), *plugins.entries(Lesson, "foretrace.lessons")]
    return sorted(found, key=lambda lesson: (lesson.number, lesson.name))


def lesson(word: str) -> Lesson:
    """The lesson of that number or name."""
    known = lessons()
    for each in known:
        if word in (str(each.number), each.name):
            return each
    listed = ", ".join(f"{each.number} ({each.name})" for each in known)
    raise UsageError(f"no lesson {word!r}: choose from {listed}")


def tour() -> Lesson:
    """The first question of three lessons, for two minutes: how many kernels each launches."""
    steps = tuple(lesson(name).steps[0] for name in _TOUR)
    return Lesson(number=0, name="tour", title="Guess first, then look", steps=steps, read=())


@cache
def _shipped() -> tuple[Lesson, ...]:
    texts = files(__name__).joinpath("texts").iterdir()
    return tuple(
        read_lesson(each.read_text(encoding="utf-8"))
        for each in texts
        if each.name.endswith(".toml")
    )


def read_lesson(text: str) -> Lesson:
    """The lesson that a file of `texts` holds: programs by name, then its steps."""
    entry = tomllib.loads(text)
    programs = {name: Program(**each) for name, each in entry.pop("programs").items()}
    steps = tuple(_step(programs, **each) for each in entry.pop("step"))
    return Lesson(steps=steps, read=tuple(entry.pop("read")), **entry)


def _step(programs: Mapping[str, Program], program: str, ask: str, **entry: Any) -> LessonStep:
    """One with `choice` asks to pick, one with `holds` for a number, any other for a prediction."""
    asked: PickOne | HowMany | Predict = Predict(ask)
    if "choice" in entry:
        asked = PickOne(ask, convert(entry.pop("choice"), tuple[PickChoice, ...]))
    elif "holds" in entry:
        asked = HowMany(ask, entry.pop("holds"), entry.pop("misread", {}))
    if isinstance(cpu := entry.get("cpu"), dict):
        entry["cpu"] = _step(programs, **cpu)
    return LessonStep(programs[program], asked, **entry)
