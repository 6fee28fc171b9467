"""What every page for a terminal is made of: theme, safe text, columns, wrapped lines.

Every name in a trace is untrusted: a raw ESC moves the cursor of a terminal, a bidi override turns
a line around, a pipe ends a table cell, an equals sign starts a formula in a spreadsheet. All text
goes through `plain`, `markdown` or `csv_cell` before it is shown.

Every verdict is also a word, so a page is readable without colour.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

NORMAL, BOLD = "\x1b[0m", "\x1b[1m"
_GREEN, _RED, _YELLOW, _CYAN = ("\x1b[1;32m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;36m")
_WORDS = {
    _GREEN: "GPU-BOUND FASTER SAME HOLDS YES hit",
    _RED: "INCOMPLETE TRUST SLOWER ERROR MISS",
    _YELLOW: "HOST-BOUND SYNC-BOUND COPY-BOUND COMMS-BOUND MIXED UNKNOWN INCONCLUSIVE NO unknown",
    _CYAN: "DO-FIRST THEN COMPILE",
}
COLOURS = {word: colour for colour, words in _WORDS.items() for word in words.split()}


def painted(word: str) -> str:
    """A title or a label, for a terminal that shows colour."""
    return f"{COLOURS.get(word.replace(' ', '-'), BOLD)}{word}{NORMAL}"


# Printable by Unicode's rules and yet blank on screen: Hangul fillers and the Braille blank.
_BLANK = "\u115f\u1160\u3164\uffa0\u2800"
_MARKDOWN = str.maketrans({mark: f"\\{mark}" for mark in "\\`|[]()<>*_~$&@#!"})
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # the last are full-width


def plain(text: str) -> str:
    r"""Safe for a terminal: one line, and what a terminal acts on as escapes (`\x1b`, `\u202e`)."""
    if text.isprintable() and not any(mark in text for mark in _BLANK):
        return text
    shown = {mark for mark in text if mark.isprintable() and mark not in _BLANK}
    escaped = {mark: mark.encode("unicode_escape").decode() for mark in {*text} - shown}
    return "".join(escaped.get(mark, mark) for mark in text)


def markdown(text: str) -> str:
    r"""Safe for a cell of a Markdown table: no markup, no HTML, no link, no mention, no new row."""
    escaped = plain(text).translate(_MARKDOWN)
    return escaped.replace("://", ":\\//").replace("www.", "www\\.").replace("WWW.", "WWW\\.")


def csv_cell(text: str) -> str:
    """Safe for a spreadsheet and a terminal: an apostrophe precedes what would be a formula."""
    shown = plain(text)
    # some spreadsheets strip blanks before they look
    is_formula = text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA)
    return f"'{shown}" if is_formula else shown


def stem(path: str) -> str:
    """The name of a file, without its folder and what every trace ends with."""
    name = path.replace("\\", "/").rsplit("/", 1)[-1]
    for end in (".gz", ".json", ".pt.trace"):
        name = name.removesuffix(end)
    return name


NARROWEST = 8  # a column of words keeps this much, whatever the width
MOST_OF_IT = 0.7  # of the room: a cut between words that leaves more empty says less


def layout(
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
    return "\n".join(_line(row, sizes, left, indent) for row in (head, *cells))


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


WIDTH = 100  # where the terminal does not state its own
_QUANTITY = r"(?<=\d) (?=(?:ns|us|ms|s|[kMGT]?B|[kMGTP]?FLOP|[GT]B/s|TFLOP/s)\b)"


def wrapped(text: str, first: str, rest: str, width: int = WIDTH) -> str:
    """Safe text in lines, broken at blanks, but not between a number and its unit."""
    held = re.sub(_QUANTITY, "\u00a0", plain(text))
    lines = textwrap.fill(
        held, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    return lines.replace("\u00a0", " ")
