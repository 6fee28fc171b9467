"""Every error that foretrace raises on purpose.

    ForetraceError                 a person can fix it; printed as one line, without a traceback
    ├── TraceError                 exit 3: not a readable trace (has a code, a byte, a next step)
    │   └── LimitError             exit 3: a limit against hostile files stopped the load
    ├── UsageError                 exit 2: the request is wrong (a guess that does not parse, an
    │                              unknown region, a store that refuses)
    ├── UserCodeError              exit 1: the user's own code raised; its traceback was printed
    └── MissingError               exit 4: a device or an optional package is missing

`foretrace.cli.main` prints them. It also prints an `OSError` (exit 2, with the path) and a missing
import (exit 4, with the command that installs it) as one line.

What a command says beside its answer: warnings on stderr, and what takes time at the moment.

A warning is one line about something that belongs to no answer: a plugin that fails, a cache that
is not used. Progress is shown only where a command listens.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import ClassVar


def printable(text: str) -> str:
    """The text on one line: the names of files and of members may hold newlines, or worse."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def first_line(problem: Exception | str, longest: int = 160) -> str:
    """What an error says first, cut: a compiler's has hundreds of lines, its cause in line two."""
    text = problem if isinstance(problem, str) else f"{type(problem).__name__}: {problem}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = " ".join(lines[:2] if lines and lines[0].endswith(":") else lines[:1])
    return first if len(first) <= longest else f"{first[: longest - 1].rstrip()}…"


def nearest(name: str, known: Iterable[str], otherwise: str, most: int = 1) -> str:
    """`did you mean look?` for a mistyped name, else what to do."""
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=most)
    return f"did you mean {' or '.join(close)}?" if close else otherwise


class ForetraceError(Exception):
    """The base class. `exit_code` is part of the contract."""

    exit_code: ClassVar[int] = 3


class TraceError(ForetraceError):
    """The input is not a readable trace.

    `code` is a stable word (`E_EMPTY`, `E_NOT_A_TRACE`, ...), `offset` the byte where reading
    stopped, `hint` the next step.
    """

    def __init__(
        self, code: str, path: str, message: str, *, offset: int | None = None, hint: str = ""
    ) -> None:
        self.code, self.path, self.message = code, path, message
        self.offset, self.hint = offset, hint
        where = path if offset is None else f"{path}: byte {offset:,}"
        tail = f"; {hint}" if hint else ""
        super().__init__(printable(f"{where}: {message} [{code}]{tail}"))

    def __reduce__(self) -> tuple[Callable[..., TraceError], tuple[str, ...]]:
        """How it comes back from another process."""
        made = partial(type(self), offset=self.offset, hint=self.hint)
        return made, (self.code, self.path, self.message)


class LimitError(TraceError):
    """A resource limit stopped the load."""


class UsageError(ForetraceError):
    """The request is wrong; the input may be fine."""

    exit_code = 2


class UserCodeError(ForetraceError):
    """The user's own code raised. Its traceback was printed where it was caught."""

    exit_code = 1


class MissingError(ForetraceError):
    """A device or an optional package is missing; the message names the install command."""

    exit_code = 4


_show: Callable[[str], None] | None = None
_said: set[str] = set()
_OFF = ("", "0", "false")


def show_with(show: Callable[[str], None] | None) -> None:
    """Call `show` with every report from now on; None stops it."""
    global _show
    _show = show


def report(text: str = "") -> None:
    """Say what takes time now; an empty text says that it is over."""
    if _show is not None:
        _show(text)


def warned() -> frozenset[str]:
    """The warnings so far, for `leave_out` in another process."""
    return frozenset(_said)


def leave_out(texts: frozenset[str]) -> None:
    """Do not repeat these warnings: the process that started this one has printed them."""
    _said.update(texts)


def warn(text: str) -> None:
    """Print a warning on one line, once in this process."""
    if text in _said:
        return
    _said.add(text)
    report()
    with suppress(AttributeError, OSError, ValueError):  # stderr is closed or full
        sys.stderr.write(f"foretrace: warning: {printable(text)}\n")
        sys.stderr.flush()


def in_ci() -> bool:
    """Whether a build machine runs this: nobody reads there that a prediction is undecided."""
    return any(os.environ.get(name, "").lower() not in _OFF for name in ("CI", "BUILD_NUMBER"))
