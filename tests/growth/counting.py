"""How much work a call does, in numbers that are the same on every machine.

Counted are, while a function of this project is the one that runs,

    every line of Python, each turn of a comprehension included,
    the memory that a line takes, whether it keeps it or not (NumPy's arrays, bytes, lists),
    the length of a text, list or Polars frame that a method of it is called on.

What a method does with a regular expression is not seen; `test_patterns.py` examines those.
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
    """Counts lines, bytes taken and rows seen while it is entered."""

    def __init__(self) -> None:
        self.lines = self.bytes = self.seen = self.held = 0

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

    def _line(self, *_: object) -> Callable[..., Any]:
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


def growth(run: Callable[[int], Callable[[], object]], size: int) -> float:
    """How much more the second doubling adds than the first: 2 in proportion, 4 for squares.

    `run(n)` prepares and returns what is counted. A first call is not counted: it makes what later
    calls find. What looks like a square is counted again, and the least of each count stands: a
    table of the interpreter that grows once, or another thread, adds its memory to one call alone.
    """
    run(4 * size)()
    least = np.full((3, 3), np.iinfo(np.int64).max)
    for _ in range(3):
        for row, n in enumerate((size, 2 * size, 4 * size)):
            call = run(n)
            with Work() as work:
                call()
            counts = [work.lines, work.bytes // LINE, work.seen // LINE]
            least[row] = np.minimum(least[row], counts)
        # Differences leave out what every call costs. The worst of the counts is taken, of those
        # that are a tenth of the work. Less than three lines for each is no growth.
        first, second = np.diff(least, axis=0)
        large = 10 * second >= second.sum()
        ratio = float((second / np.maximum(first, 3 * size))[large].max())
        if ratio < SQUARE:
            break
    return ratio
