"""Plain-text tables: aligned columns, no colour needed, cut to a width."""

from __future__ import annotations

from collections.abc import Sequence

from .safe import plain


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,), width: int = 100,
          indent: str = "  ") -> str:
    """Columns in `left` are aligned left and the first of them gives way when the table is wider than `width`."""
    cells = [[plain(cell) for cell in row] for row in rows]
    sizes = [max(len(head[at]), *(len(row[at]) for row in cells)) if cells else len(head[at]) for at in range(len(head))]
    spare = width - len(indent) - sum(sizes) - 2 * (len(sizes) - 1)
    if spare < 0 and left:
        sizes[left[0]] = max(sizes[left[0]] + spare, 12)
    lines = [_line(head, sizes, left, indent)]
    lines += [_line(row, sizes, left, indent) for row in cells]
    return "\n".join(lines)


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
