"""What is kept between sittings: the answers to each lesson, in the user's state folder.

Progress is a convenience: where it cannot be read or written, one line says so and nothing else
changes.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct, field

from foretrace.base.files import write_bytes
from foretrace.base.notices import warn


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


def place() -> Path | None:
    """`lessons.json` in the user's state folder; None for a user who has no home."""
    try:
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError:  # no HOME, and no such user
        return None
    return Path(base) / "foretrace" / "lessons.json"


def read() -> Progress:
    """What is kept; nothing where there is no file, or one that is not ours."""
    path = place()
    try:
        return msgspec.json.decode(path.read_bytes(), type=Progress) if path else Progress()
    except FileNotFoundError:
        return Progress()
    except (OSError, ValueError) as problem:
        warn(f"progress is not read: {path}: {problem}")
        return Progress()


def keep(name: str, kept: KeptLesson) -> None:
    """Note how far a lesson went: the file is replaced as a whole."""
    path = place()
    if path is None:
        return
    lessons = {**read().lessons, name: kept}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, msgspec.json.encode(Progress(lessons=lessons)))
    except OSError as problem:
        warn(f"progress is not kept: {path}: {problem.strerror or problem}")
