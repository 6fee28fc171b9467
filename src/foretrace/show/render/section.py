"""A page as sections, drawn for a terminal or as Markdown; here every text goes through `safe`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from msgspec import Struct

from foretrace.show.render.safe import markdown, plain
from foretrace.show.render.table import table
from foretrace.show.render.theme import painted

WIDTH = 100
_QUANTITY = re.compile(r"(?<=\d) (?=(?:ns|us|ms|s|[kMGT]?B|[kMGTP]?FLOP|[GT]B/s|TFLOP/s)\b)")


class Section(Struct, frozen=True):
    """A title with labelled lines, paragraphs, bullets, a table, a line after it, and code.

    A bullet is a line and a text below it. A labelled line is a word in front and what it says.
    """

    title: str
    paragraphs: Sequence[str] = ()
    labelled: Sequence[tuple[str, str]] = ()
    bullets: Sequence[tuple[str, str]] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    left: Sequence[int] = (0,)
    after: str = ""
    code: str = ""  # shown line by line, as it is


def drawn(sections: Sequence[Section], *, bold: bool = False, width: int = WIDTH) -> str:
    """For a terminal of this width, readable without colour; `bold` marks titles and labels."""
    return "\n\n".join("\n".join(_Drawn(width, bold).lines(section)) for section in sections)


class _Drawn(Struct, frozen=True):
    """How a terminal shows text."""

    width: int
    bold: bool

    def lines(self, section: Section) -> Iterator[str]:
        indent, deep = "  " if section.title else "", " " * 6
        if section.title:
            yield self.marked(self.wrapped(section.title, "", ""))
        for text in section.paragraphs:
            yield self.wrapped(text, indent, indent)
        yield from self.labelled(section.labelled)
        for line, text in section.bullets:
            yield self.wrapped(line, "  ", deep)
            if text:
                yield self.wrapped(text, deep, deep)
        if section.rows:
            yield table(section.head, section.rows, left=section.left, width=self.width)
        if section.after:
            yield self.wrapped(section.after, "  ", "  ")
        for line in section.code.splitlines():
            yield f"    {plain(line)}".rstrip()

    def labelled(self, lines: Sequence[tuple[str, str]]) -> Iterator[str]:
        """Words in front in one column, what they say beside it."""
        column = max((len(label) for label, _ in lines), default=0) + 2
        for label, text in lines:
            body = self.wrapped(text, " " * column, " " * column)
            yield self.marked(label) + body[len(label) :]

    def marked(self, text: str) -> str:
        return painted(text) if self.bold else text

    def wrapped(self, text: str, first: str, rest: str) -> str:
        """Broken at blanks, but not between a number and its unit."""
        held = _QUANTITY.sub("\u00a0", plain(text))
        lines = textwrap.fill(
            held, self.width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
        )
        return lines.replace("\u00a0", " ")


def marked(sections: Sequence[Section]) -> str:
    """As Markdown: a table per section, every text escaped."""
    return "\n\n".join(_marked(section) for section in sections)


def _marked(section: Section) -> str:
    parts = [f"## {markdown(section.title)}"] if section.title else []
    parts += [markdown(text) for text in section.paragraphs]
    parts += [f"**{markdown(label)}**: {markdown(text)}" for label, text in section.labelled]
    bullets = [
        f"- **{markdown(line)}** {markdown(text)}" if text else f"- {markdown(line)}"
        for line, text in section.bullets
    ]
    parts += ["\n".join(bullets)] if bullets else []
    if section.rows:
        rule = "|".join(":---" if at in section.left else "---:" for at in range(len(section.head)))
        rows = [_cells(section.head), f"|{rule}|", *(_cells(row) for row in section.rows)]
        parts.append("\n".join(rows))
    parts += [markdown(section.after)] if section.after else []
    return "\n\n".join([*parts, _fenced(section.code)] if section.code else parts)


def _fenced(code: str) -> str:
    """A block of code, with a fence that is longer than any run of backticks inside."""
    longest = max(map(len, re.findall("`+", code)), default=0)
    fence = "`" * max(longest + 1, 3)
    return "\n".join([fence, *map(plain, code.splitlines()), fence])


def _cells(cells: Sequence[str]) -> str:
    return "| " + " | ".join(markdown(cell) or " " for cell in cells) + " |"
