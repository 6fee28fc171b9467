"""What a command says beside its answer: warnings on stderr, and what takes time at the moment.

A warning is one line about something that belongs to no answer: a plugin that fails, a cache that
is not used. Progress is shown only where a command listens.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

from foretrace.base.errors import printable

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
