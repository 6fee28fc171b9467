"""How much work a call does, in numbers that are the same on every machine.

Counted are, while a function of this project is the one that runs,

    every line of Python, each turn of a comprehension included,
    the memory that a line takes, whether it keeps it or not (NumPy's arrays, bytes, lists),
    the length of a text, list or Polars frame that a method of it is called on.

What a method does with a regular expression is not seen; `patterns.py` examines those.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

OWN = tuple(str(Path(__file__).parents[2] / part) for part in ("src", "tests"))
LINE = 64  # bytes that count as much as a line
SQUARE = 2.5  # a growth from which on it is counted again
# methods that look at all that they are called on
_THROUGH = "index count sort insert remove copy reverse replace split rsplit splitlines join lower"
THROUGH = frozenset(_THROUGH.split())
ROWS = frozenset({"lazy", "cast", "to_numpy", "to_list", "filter", "unique", "sort", "hash"})


class Work:
    """Counts while it is entered; `total` is the work so far."""

    def __init__(self) -> None:
        self.lines = self.bytes = self.seen = self.held = 0

    @property
    def total(self) -> int:
        return self.lines + (self.bytes + self.seen) // LINE

    def __enter__(self) -> Work:
        gc.disable()  # it would give back memory in one run and not in another
        tracemalloc.start()
        sys.setprofile(self._called)
        sys.settrace(self._entered)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        sys.setprofile(None)
        self._weigh()
        tracemalloc.stop()
        gc.enable()

    def _entered(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        return self._line if frame.f_code.co_filename.startswith(OWN) else None

    def _line(self, _: FrameType, event: str, __: Any) -> Callable[..., Any]:
        self.lines += 1
        self._weigh()
        return self._line

    def _weigh(self) -> None:
        held, most = tracemalloc.get_traced_memory()
        self.bytes += max(most - self.held, 0)
        self.held = held
        tracemalloc.reset_peak()

    def _called(self, _: FrameType, event: str, function: Any) -> None:
        if event != "c_call":
            return
        owner = getattr(function, "__self__", None)
        if type(owner) in (str, bytes, bytearray, list):
            self.seen += len(owner) if function.__name__ in THROUGH else 0
        elif function.__name__ in ROWS and type(owner).__name__ in ("PyDataFrame", "PySeries"):
            self.seen += 8 * (owner.height() if hasattr(owner, "height") else owner.len())


class Lines(Work):
    """Counts lines alone, in a third of the time."""

    def __enter__(self) -> Work:
        sys.settrace(self._entered)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _weigh(self) -> None:
        pass


def growth(
    run: Callable[[int], Callable[[], object]],
    size: int,
    counted: type[Work] = Work,
    most_rounds: int = 3,
) -> float:
    """How much more the second doubling adds than the first: 2 in proportion, 4 for squares.

    `run(n)` prepares and returns what is counted. A first call is not counted: it makes what later
    calls find, which would take from the first difference alone. What looks like a square is
    counted again, and the least of each count stands: a table of the interpreter that grows once,
    or another thread, adds its memory to one call alone.
    """
    run(4 * size)()
    rounds: list[list[list[int]]] = []
    while True:
        rounds.append(_counts(run, size, counted))
        found = _ratio(np.min(rounds, axis=0).tolist(), size)
        if found < SQUARE or len(rounds) == most_rounds:
            return found


def _counts(
    run: Callable[[int], Callable[[], object]], size: int, counted: type[Work]
) -> list[list[int]]:
    """Lines, memory and lengths of a call of this size, of twice and of four times this size."""
    found = []
    for n in (size, 2 * size, 4 * size):
        call = run(n)
        with counted() as work:
            call()
        found.append(work)
    lines = [work.lines for work in found]
    return [lines, *([getattr(work, name) // LINE for work in found] for name in ("bytes", "seen"))]


def _ratio(parts: list[list[int]], size: int) -> float:
    """Differences leave out what every call costs. The worst of the parts counts, of those that are
    a tenth of the work. Less than three lines for each is no growth.
    """
    added = [(second - first, third - second) for first, second, third in parts]
    most = sum(second for _, second in added)
    return max(second / max(first, 3 * size) for first, second in added if 10 * second >= most)
