r"""What the command line needs of its process: streams that are there, and signals as exceptions.

A closed stream is opened again before anything else opens a file, which would otherwise take its
number. Output that a full pipe takes in parts arrives whole. Text that the encoding of stdout lacks
is written as `\u2026`, which JSON reads too. SIGTERM and SIGHUP are handled as Ctrl+C is, so that a
draft or a temporary folder is removed. A user's script has the garbage collector of a plain Python.
"""

from __future__ import annotations

import codecs
import gc
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TextIO

# Reading from the device gives nothing. Writing to what is open for reading is refused: nobody
# would see the answer. What is said on stderr is lost.
_CLOSED = {"stdin": ("r", os.O_RDONLY), "stdout": ("w", os.O_RDONLY), "stderr": ("w", os.O_WRONLY)}

_USUAL_LIMITS = gc.get_threshold()  # before `main` raises them


class Stopped(KeyboardInterrupt):
    """A signal asked the program to end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def prepare() -> None:
    """Call it once, when the process has just started."""
    for number, (name, (mode, flags)) in enumerate(_CLOSED.items()):
        if getattr(sys, name) is None:
            _point_at_nothing(number, flags)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - to the end
    for name in ("stdout", "stderr"):
        setattr(sys, name, _whole(getattr(sys, name)))
    codecs.register_error("escaped", _escaped)
    if sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="escaped")  # type: ignore[union-attr]
    for name in ("SIGTERM", "SIGHUP"):
        wanted = getattr(signal, name, None)  # Windows has no SIGHUP
        if wanted is not None and signal.getsignal(wanted) is signal.SIG_DFL:
            signal.signal(wanted, _stop)


@contextmanager
def collecting_as_usual() -> Iterator[None]:
    """Inside the block garbage is collected as in `python script.py`: steps take the same time."""
    ours = gc.get_threshold()
    gc.set_threshold(*_USUAL_LIMITS)
    try:
        yield
    finally:
        gc.set_threshold(*ours)


def _whole(stream: TextIO) -> TextIO:
    """The stream with a buffer that writes all of what it holds.

    PYTHONUNBUFFERED leaves it away. Then a timer that interrupts a write to a full pipe cuts the
    output: what the pipe had no room for is lost, and nothing says so.
    """
    raw = getattr(stream, "buffer", None)
    if not isinstance(raw, io.RawIOBase):
        return stream
    buffered = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffered, stream.encoding, stream.errors, line_buffering=True)


def drop(stream: object) -> None:
    """Discard what a stream still holds: Python would try to write it once more at exit."""
    with suppress(AttributeError, OSError, ValueError):  # not a stream of the process
        _point_at_nothing(stream.fileno(), os.O_WRONLY)  # type: ignore[attr-defined]


def _point_at_nothing(number: int, flags: int) -> None:
    opened = os.open(os.devnull, flags)
    if opened == number:
        os.set_inheritable(number, True)
    else:
        os.dup2(opened, number)
        os.close(opened)


def _escaped(problem: UnicodeError) -> tuple[str, int]:
    """Characters as JSON escapes them: in UTF-16, four digits each."""
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    text = problem.object[problem.start : problem.end].encode("utf-16-be", "surrogatepass").hex()
    units = (text[at : at + 4] for at in range(0, len(text), 4))
    return "".join(f"\\u{unit}" for unit in units), problem.end


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # once is enough: cleaning up is not interrupted
    raise Stopped(number)
