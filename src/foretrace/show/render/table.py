"""Plain-text tables: aligned columns, no colour needed, cut to a width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foretrace.show.render.safe import plain

NARROWEST = 8  # a column of words keeps this much, whatever the width
MOST_OF_IT = 0.7  # of the room: a cut between words that leaves more empty says less


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: Sequence[int] = (0,),
    width: int = 100,
    indent: str = "  ",
) -> str:
    """Columns in `left` hold words: aligned left, and cut where space is short, the first least."""
    cells = [[plain(cell) for cell in row] for row in rows]
    sizes = [max(len(row[at]) for row in (head, *cells)) for at in range(len(head))]
    _narrow(sizes, left, width - len(indent) - 2 * (len(sizes) - 1))
    for at in left[:1]:
        names = _distinct([row[at] for row in cells], sizes[at])
        for row, name in zip(cells, names, strict=True):
            row[at] = name
    lines = [_line(head, sizes, left, indent)]
    lines += [_line(row, sizes, left, indent) for row in cells]
    return "\n".join(lines)


def _narrow(sizes: list[int], left: Sequence[int], room: int) -> None:
    """Narrow the widest column of words until all fit; the first counts least, then the last."""
    for at in left:
        sizes[at] = min(sizes[at], max(room, NARROWEST))
    while sum(sizes) > room and left:
        able = [at for at in left if sizes[at] > NARROWEST]
        if not able:
            return
        weight = dict.fromkeys(left, 9) | {left[-1]: 6, left[0]: 5}
        widest = max(able, key=lambda at: sizes[at] * weight[at])
        sizes[widest] -= 1


def _line(cells: Sequence[str], sizes: Sequence[int], left: Sequence[int], indent: str) -> str:
    shown = [
        shorten(cell, size).ljust(size) if at in left else cell.rjust(size)
        for at, (cell, size) in enumerate(zip(cells, sizes, strict=True))
    ]
    return (indent + "  ".join(shown)).rstrip()


def _distinct(names: Sequence[str], size: int) -> list[str]:
    """Names cut so that different ones stay different, if any cut at one place of all does that."""
    different = len(set(names))
    cuts = (cut for cut in _cuts(names, size) if len(set(cut)) == different)
    return next(cuts, [shorten(name, size) for name in names])


def _cuts(names: Sequence[str], size: int) -> Iterator[list[str]]:
    """Between words, then anywhere: with the usual tail, longer ones, any; without the beginning
    that all long names share.
    """
    tails = [_tail(size), size // 2, 2 * _tail(size), *range(1, size - 1)]
    yield from ([shorten(name, size, tail) for name in names] for tail in tails[:3])
    yield from ([_cut(name, size, tail) for name in names] for tail in tails)
    long = [name for name in names if len(name) > size]
    differ = (at for at, chars in enumerate(zip(*long, strict=False)) if len(set(chars)) > 1)
    common = next(differ, 0)
    bare = [f"…{name[common:]}" if len(name) > size else name for name in names]
    yield from ([_cut(name, size, tail) for name in bare] for tail in tails)


def _tail(size: int) -> int:
    return max((size - 1) // 3, 1)


def _cut(text: str, size: int, tail: int) -> str:
    return text if len(text) <= size else f"{text[: size - 1 - tail]}…{text[-tail:]}"


def shorten(text: str, size: int, tail: int | None = None) -> str:
    """The beginning and the end (a third, or `tail`) of a long text: names differ at both.

    Cut between words where that leaves most of the room in use; else anywhere.
    """
    found = _cut(text, size, tail or _tail(size))
    first, mark, last = found.partition("…")
    if not mark or len(text) <= size:
        return text
    if " " in first and text[len(first)] != " ":
        first = first.rpartition(" ")[0]
    if " " in last and text[-len(last) - 1] != " ":
        last = last.partition(" ")[2]
    whole = f"{first.rstrip()}…{last}"
    return whole if len(whole) >= MOST_OF_IT * size else found
