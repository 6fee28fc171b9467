"""One line on stderr about what belongs to no answer: a plugin that fails, a cache not used."""

from __future__ import annotations

import sys
from contextlib import suppress

from foretrace.base import progress

_said: set[str] = set()


def said() -> frozenset[str]:
    """What was said, for `leave_out` in another process."""
    return frozenset(_said)


def leave_out(texts: frozenset[str]) -> None:
    """Do not say these: the process that started this one has."""
    _said.update(texts)


def warn(text: str) -> None:
    """Say it once in this process, on one line."""
    if text in _said:
        return
    _said.add(text)
    progress.report()
    line = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    with suppress(AttributeError, OSError, ValueError):  # stderr is closed or full
        sys.stderr.write(f"foretrace: warning: {line}\n")
        sys.stderr.flush()
