"""A page as sections, drawn for a terminal or as Markdown; here every text goes through `safe`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from msgspec import Struct

from foretrace.render.safe import markdown, plain
from foretrace.render.table import table

WIDTH = 100
BOLD, NORMAL = "\x1b[1m", "\x1b[0m"
_QUANTITY = re.compile(r"(?<=\d) (?=(?:ns|us|ms|s|[kMGT]?B|[kMGTP]?FLOP|[GT]B/s|TFLOP/s)\b)")


class Section(Struct, frozen=True):
    """A title with paragraphs, bullets (a line, a text below it), a table, and a line after it."""

    title: str
    paragraphs: Sequence[str] = ()
    bullets: Sequence[tuple[str, str]] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    left: Sequence[int] = (0,)
    after: str = ""


def drawn(
    sections: Sequence[Section], *, bold: bool = False, width: int = WIDTH, gap: str = "\n\n"
) -> str:
    """For a terminal, readable without colour; `bold` marks the titles, `gap` parts sections."""
    return gap.join(_drawn(section, bold, width) for section in sections)


def _drawn(section: Section, bold: bool, width: int) -> str:
    title = _wrapped(section.title, "", "", width) if section.title else ""
    indent, deep = "  " if title else "", " " * 6
    parts = [f"{BOLD}{title}{NORMAL}" if bold else title] if title else []
    parts += [_wrapped(text, indent, indent, width) for text in section.paragraphs]
    for line, text in section.bullets:
        below = [_wrapped(text, deep, deep, width)] if text else []
        parts += [_wrapped(line, "  ", deep, width), *below]
    if section.rows:
        parts.append(table(section.head, section.rows, left=section.left, width=width))
    parts += [_wrapped(section.after, "  ", "  ", width)] if section.after else []
    return "\n".join(parts)


def _wrapped(text: str, first: str, rest: str, width: int) -> str:
    """Broken at blanks, but not between a number and its unit."""
    held = _QUANTITY.sub("\u00a0", plain(text))
    lines = textwrap.fill(
        held, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    return lines.replace("\u00a0", " ")


def marked(sections: Sequence[Section]) -> str:
    """As Markdown: a table per section, every text escaped."""
    return "\n\n".join(_marked(section) for section in sections)


def _marked(section: Section) -> str:
    parts = [f"## {markdown(section.title)}"] if section.title else []
    parts += [markdown(text) for text in section.paragraphs]
    bullets = [
        f"- **{markdown(line)}** {markdown(text)}" if text else f"- {markdown(line)}"
        for line, text in section.bullets
    ]
    parts += ["\n".join(bullets)] if bullets else []
    if section.rows:
        rule = "|".join(":---" if at in section.left else "---:" for at in range(len(section.head)))
        rows = [_cells(section.head), f"|{rule}|", *(_cells(row) for row in section.rows)]
        parts.append("\n".join(rows))
    return "\n\n".join([*parts, markdown(section.after)] if section.after else parts)


def _cells(cells: Sequence[str]) -> str:
    return "| " + " | ".join(markdown(cell) or " " for cell in cells) + " |"
