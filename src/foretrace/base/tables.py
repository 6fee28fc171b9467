"""What an answer is shown as: tables and lines, and the four ways in which they print.

An analysis returns data; its `lines.py` puts that into a list of `Table`, written once. `text`
draws it for a terminal, `marked` as Markdown, `csv_text` for a spreadsheet, and `data` as JSON,
which the pages draw. No one else formats a number or writes a sentence.

    Table("Kernels", (Column("kernel", "short", WORDS), Column("total", "total_ns")), rows)
    Table("Totals", lines=[Line("", "182 kernels")])
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from foretrace.base.errors import UsageError
from foretrace.base.patterns import regex
from foretrace.base.terminal import WIDTH, csv_cell, layout, markdown, painted, plain, wrapped
from foretrace.base.units import (
    DASH,
    bytes_text,
    count_text,
    flops_text,
    percent_text,
    plural,
    ratio_text,
    time_text,
)

LINES = 25  # of the first screen
NARROW = 80  # a terminal narrower than this has no room for every column
BULLET = "-"
BESIDE = " "  # continues the line above it, below its text


@dataclass(frozen=True, slots=True)
class Line:
    """A word in front, and what it says; without a word a paragraph.

    One whose word is `BULLET` is an item of a list, and may have a text `below` it; one whose word
    is `BESIDE` says more about the line above it.
    """

    label: str
    text: str
    below: str = ""


# How a value is shown. WORDS stand at the left and are cut where there is no room; a TEXT is a
# value that its author has formatted, and is never cut.
WORDS, TEXT = "words", "text"
_SHOWN: dict[str, Callable[[Any], str]] = {
    WORDS: str,
    TEXT: str,
    "ns": time_text,
    "bytes": bytes_text,
    "flops": flops_text,
    "share": percent_text,
    "ratio": ratio_text,
    "percent": lambda share: f"{share:.0f}%" if share >= 1 else "<1%",
    "gbps": lambda rate: f"{rate:.3g}",
    "GB/s": lambda rate: f"{rate:.3g} GB/s",
    "number": str,
    "count": count_text,
}
_NUMBERS = ("rank", "step", "stage", "region")  # that count nothing
_BY_END = {
    "_ns": "ns",
    "bytes": "bytes",
    "share": "share",
    "noise": "share",
    "ratio": "ratio",
    "gbps": "gbps",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its head, the field of a row or a function of it, and the unit of its values.

    Without a field it is the one that is named as the head. Without a unit the name of the field
    says it (times end in `_ns`), else it is a count. Where a terminal is narrow, columns that are
    not `first` go before the others.
    """

    name: str
    of: str | Callable[[Any], Any] = ""
    unit: str = ""
    first: bool = True

    def value(self, row: Any) -> Any:
        """What a row has here."""
        return getattr(row, self.of or self.name) if isinstance(self.of, str) else self.of(row)

    @property
    def shown_as(self) -> str:
        """The unit, or what the name of the field says."""
        if self.unit or not isinstance(self.of, str):
            return self.unit or "count"
        field = self.of or self.name
        by_name = (unit for end, unit in _BY_END.items() if field.endswith(end))
        return "number" if field in _NUMBERS else next(by_name, "count")

    def text(self, row: Any) -> str:
        """What a row has here, for people."""
        value = self.value(row)
        if value is None or (value == "" and isinstance(self.of, str)):
            return DASH
        return value if isinstance(value, str) else _SHOWN[self.shown_as](value)


@dataclass(frozen=True, slots=True)
class Table:
    """A title, lines, a table, a line below it, and code that is shown as it is.

    One without columns holds lines alone. A page shows the first `top` rows, CSV all of them.
    """

    title: str = ""
    columns: Sequence[Column] = ()
    rows: Sequence[Any] = ()
    more: str = ""
    lines: Sequence[Line] = ()
    code: str = ""
    top: int | None = None

    @property
    def filled(self) -> bool:
        """Whether there is anything below the title."""
        return bool(self.lines or self.shown)

    @property
    def shown(self) -> Sequence[Any]:
        """The rows that a page shows."""
        return self.rows[: self.top]

    @property
    def cells(self) -> list[list[str]]:
        """These rows, for people."""
        return [[column.text(row) for column in self.columns] for row in self.shown]


def listed(
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Any],
    top: int,
    how: str = "",
    *,
    what: str = "",
    more: str = "",
) -> Table:
    """A table of which a page shows the first `top` rows, and a line about those left out."""
    rest = more_text(len(rows), top, how or f"--top {len(rows)}", what)
    return Table(title, columns, rows, f"{more} {rest}".strip(), top=top)


def more_text(count: int, shown: int, how: str, what: str = "") -> str:
    """`… and 3 more kernels (--kernels)`; empty where all are shown."""
    more = count_text(count - shown)
    words = plural(count - shown, f"more {what}") if what else f"{more} more"
    return f"… and {words} ({how})" if count > shown else ""


def bulleted(title: str, texts: Iterable[str]) -> Table:
    """An item of a list for each text."""
    return Table(title, lines=[Line(BULLET, text) for text in texts])


def paragraphs(title: str, *texts: str, code: str = "") -> Table:
    """Texts below a title."""
    return Table(title, lines=[Line("", text) for text in texts], code=code)


def filled(tables: Iterable[Table]) -> list[Table]:
    """Those that have anything below their titles."""
    return [table for table in tables if table.filled]


def text(tables: Sequence[Table], *, bold: bool = False, width: int = WIDTH) -> str:
    """For a terminal of this width, readable without colour; `bold` marks titles and labels."""
    return "\n\n".join("\n".join(_text(table, width, bold)) for table in tables)


def fitted(page: Callable[[int], list[Table]], most: int, width: int = WIDTH) -> list[Table]:
    """The page with as many rows as the first screen has room for, at most `most`."""
    for rows in (most, *range(min(most - 1, LINES), -1, -1)):
        tables = page(rows)
        if text(tables, width=width).count("\n") < LINES:
            break
    return tables


def _text(table: Table, width: int, bold: bool) -> Iterator[str]:
    indent, deep = "  " if table.title else "", " " * 6
    shown = painted if bold else str
    if table.title:
        yield shown(wrapped(table.title, "", "", width))
    labels = [line.label for line in table.lines if line.label not in ("", BULLET)]
    beside = " " * (max(map(len, labels), default=0) + 2)
    for line in table.lines:
        if line.label == BULLET:
            yield wrapped(line.text, "  ", deep, width)
            if line.below:
                yield wrapped(line.below, deep, deep, width)
        elif line.label:
            below = wrapped(line.text, beside, beside, width)
            label = line.label if line.label == BESIDE else shown(line.label)
            yield label + below[len(line.label) :]
        else:
            yield wrapped(line.text, indent, indent, width)
    more = table.more
    if table.shown:
        table, left_out = _narrowed(table, width)
        more = f"{more} {left_out}".strip()
        head = [column.name for column in table.columns]
        yield layout(head, table.cells, left=_left(table), width=width)
    if more:
        yield wrapped(more, "  ", "  ", width)
    for code in table.code.splitlines():
        yield f"    {plain(code)}".rstrip()


def _left(table: Table) -> list[int]:
    return [at for at, column in enumerate(table.columns) if column.shown_as == WORDS]


def _narrowed(table: Table, width: int) -> tuple[Table, str]:
    """The table with as many columns as a narrow terminal holds, and which it left out."""
    kept = list(table.columns)
    while width < NARROW and len(kept) > 1 and not _fits(replace(table, columns=kept), width):
        extra = [column for column in kept[1:] if not column.first]
        kept.remove((extra or kept)[-1])
    gone = [column.name for column in table.columns if column not in kept and column.name]
    return replace(table, columns=kept), f"(no room: {', '.join(gone)})" if gone else ""


def _fits(table: Table, width: int) -> bool:
    head = [column.name for column in table.columns]
    drawn = layout(head, table.cells, left=_left(table), width=width)
    return max(map(len, drawn.splitlines())) <= width


def marked(tables: Sequence[Table]) -> str:
    """As Markdown: a heading and a table each, every text escaped."""
    return "\n\n".join("\n\n".join(_marked(table)) for table in tables)


def _marked(table: Table) -> Iterator[str]:
    if table.title:
        yield f"## {markdown(table.title)}"
    items = list[str]()
    for line in table.lines:
        words = markdown(line.text)
        if line.label == BULLET:
            items.append(f"- **{words}** {markdown(line.below)}" if line.below else f"- {words}")
        else:
            yield f"**{markdown(line.label)}**: {words}" if line.label.strip() else words
    if items:
        yield "\n".join(items)
    if table.shown:
        left = _left(table)
        rule = "|".join(":---" if at in left else "---:" for at in range(len(table.columns)))
        head = _row([column.name for column in table.columns])
        yield "\n".join([head, f"|{rule}|", *map(_row, table.cells)])
    if table.more:
        yield markdown(table.more)
    if table.code:  # with a fence that is longer than any run of backticks inside
        fence = "`" * max(max(map(len, re.findall("`+", table.code)), default=0) + 1, 3)
        yield "\n".join([fence, *map(plain, table.code.splitlines()), fence])


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(markdown(cell) or " " for cell in cells) + " |"


def csv_text(tables: Iterable[Table]) -> str:
    """For a spreadsheet: a head with units, and values as they are; several tables have a title."""
    every = [table for table in tables if table.rows]
    named = [table for table in every if table.title] or every
    if not named:
        raise UsageError("no table in this answer: choose a part that has one, or --json")
    if len(named) == 1:
        return _csv(named[0])
    return "\n".join(f"# {plain(table.title)}\n{_csv(table)}" for table in named)


def _csv(table: Table) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    units = {WORDS: "", TEXT: "", "count": "", "number": ""}
    heads = [(column.name, units.get(column.shown_as, column.shown_as)) for column in table.columns]
    writer.writerow([csv_cell(f"{name} ({unit})" if unit else name) for name, unit in heads])
    for row in table.rows:
        values = [column.value(row) for column in table.columns]
        writer.writerow([csv_cell(each) if isinstance(each, str) else each for each in values])
    return out.getvalue()


def data(table: Table) -> dict[str, Any]:
    """For a page: what the terminal prints, and beside it the values by which rows are sorted."""
    columns = [
        {"name": plain(column.name), "unit": column.shown_as, "first": column.first}
        for column in table.columns
    ]
    values = [[_number(column.value(row)) for column in table.columns] for row in table.shown]
    return {
        "title": plain(table.title),
        "lines": [[line.label, plain(line.text), plain(line.below)] for line in table.lines],
        "columns": columns,
        "cells": [[plain(cell) for cell in row] for row in table.cells],
        "values": values,
        "more": plain(table.more),
        "code": "\n".join(map(plain, table.code.splitlines())),
    }


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


# What a terminal or an editor acts on, beyond what JSON escapes; outside of texts JSON has none.
_ACTED_ON = regex(r"[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def encode(document: msgspec.Struct) -> str:
    """The document as one line of JSON, fields in the order of their declaration."""
    return _ACTED_ON.sub(
        lambda found: f"\\u{ord(found[0]):04x}", msgspec.json.encode(document).decode()
    )
