"""Plain-text tables: aligned columns, no colour needed, cut to a width."""

from __future__ import annotations

from collections.abc import Sequence

from .safe import plain

NARROWEST = 8  # a column of words keeps this much, whatever the width


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,), width: int = 100,
          indent: str = "  ") -> str:
    """Columns in `left` hold words: aligned left, and they give way when the table is too wide, the first one least."""
    cells = [[plain(cell) for cell in row] for row in rows]
    sizes = [max(len(head[at]), *(len(row[at]) for row in cells)) if cells else len(head[at]) for at in range(len(head))]
    _narrow(sizes, left, width - len(indent) - 2 * (len(sizes) - 1))
    lines = [_line(head, sizes, left, indent)]
    lines += [_line(row, sizes, left, indent) for row in cells]
    return "\n".join(lines)


def _narrow(sizes: list[int], left: Sequence[int], room: int) -> None:
    """Take the widest column of words down until all columns fit the room, or none can give any more.

    The first column holds the name that the row is about: it counts as narrower than it is.
    """
    for at in left:
        sizes[at] = min(sizes[at], max(room, NARROWEST))
    while sum(sizes) > room and left:
        able = [at for at in left if sizes[at] > NARROWEST]
        if not able:
            return
        widest = max(able, key=lambda at: sizes[at] * (2 if at == left[0] else 3))
        sizes[widest] -= 1


def _line(cells: Sequence[str], sizes: Sequence[int], left: Sequence[int], indent: str) -> str:
    shown = [shorten(cell, size).ljust(size) if at in left else cell.rjust(size)
             for at, (cell, size) in enumerate(zip(cells, sizes, strict=True))]
    return (indent + "  ".join(shown)).rstrip()


def shorten(text: str, size: int) -> str:
    """The beginning and the end of a long text: kernel names differ at both."""
    if len(text) <= size:
        return text
    tail = max((size - 1) // 3, 1)
    return text[:size - 1 - tail] + "…" + text[-tail:]
