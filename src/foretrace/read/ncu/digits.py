"""Numbers as Nsight Compute writes them: `4,352` in English, `4.352,5` or `4 352,5` elsewhere.

`1,234` is a thousand in one locale and one in another. Nothing in the number says which, so that
all numbers of a file decide together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import isfinite

from msgspec import Struct

_SPACES = "\u00a0\u202f '’"  # what other locales put between groups of digits
_SHAPE = re.compile(rf"[+-]?\d[\d.,{_SPACES}]*(?:[eE][+-]?\d+)?")
_GROUPS = {mark: re.compile(rf"[+-]?\d{{1,3}}(?:\{mark}\d{{3}})+") for mark in ",."}
_MISSING = frozenset({"", "n/a", "nan", "-nan", "inf", "-inf", "none", "no data"})


class Digits(Struct, frozen=True):
    """How a file writes numbers: which mark starts the decimals."""

    decimal: str = "."

    def number(self, text: str) -> float | None:
        """The number; None for a missing value or text."""
        text = text.strip()
        if text.lower() in _MISSING or not _SHAPE.fullmatch(text):
            return None
        for mark in (*_SPACES, "." if self.decimal == "," else ","):
            text = text.replace(mark, "")
        try:
            value = float(text.replace(self.decimal, "."))
        except ValueError:  # two decimal marks
            return None
        return value if isfinite(value) else None


def digits_of(cells: Iterable[str]) -> Digits | None:
    """How these numbers are written; None where they contradict each other."""
    found = {mark for cell in cells if (mark := _decimal(cell.strip()))}
    return None if len(found) > 1 else Digits(*found)


def _decimal(cell: str) -> str:
    """The mark of the decimals, where this number leaves no choice; else ""."""
    if not _SHAPE.fullmatch(cell):
        return ""
    last = max(cell.rfind(","), cell.rfind("."))
    if last < 0:
        return ""
    mark, other = (",", ".") if cell[last] == "," else (".", ",")
    if other in cell:
        return mark if cell.count(mark) == 1 else ""
    if cell.count(mark) > 1:
        return other if _GROUPS[mark].fullmatch(cell) else ""
    return "" if _GROUPS[mark].fullmatch(cell) else mark
