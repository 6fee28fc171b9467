"""Names of a comparison in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from foretrace.base.units import count_text

FEW = 4  # names that one sentence holds; the tables list all
LONG = 72  # a C++ kernel name longer than this goes by its short form


def called(name: str, short: str) -> str:
    """A kernel's name, or its short form where the name is long."""
    return name if len(name) <= LONG else short or name


def listed(items: Sequence[tuple[str, int]], few: int = FEW) -> str:
    """`a (2), b, c and 3 more`, equal names joined."""
    counts: Counter[str] = Counter()
    for name, count in items:
        counts[name] += count
    names = [
        name if count == 1 else f"{name} ({count_text(count)})" for name, count in counts.items()
    ]
    more = len(names) - few
    return joined([*names[:few], f"{count_text(more)} more"] if more > 0 else names)


def joined(words: Iterable[str]) -> str:
    """`a, b and c`."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
