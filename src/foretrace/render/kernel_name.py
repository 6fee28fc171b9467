"""A decoded kernel name, drawn: as the contract's JSON object, and part by part for people."""

from __future__ import annotations

import textwrap
from typing import Any

from foretrace.render.safe import plain
from foretrace.render.section import WIDTH
from foretrace.schema.kernel import KernelId

SCHEMA = 1
ABSENT = "(not there)"  # how a part is shown that speaks by being left out
_PIECE, _NAME = 30, 400  # characters shown of one piece, of the whole name


def as_json(kernel: KernelId) -> dict[str, Any]:
    """The object that `foretrace name NAME --json` prints."""
    parts = [
        {
            "text": part.text,
            "field": part.field,
            "meaning": part.meaning,
            "certainty": part.certainty,
        }
        for part in kernel.parts
    ]
    return {
        "schema": SCHEMA,
        "name": kernel.name,
        "short": kernel.short,
        "family": kernel.family,
        "role": kernel.role,
        "fields": dict(kernel.fields),
        "parts": parts,
    }


def rows(kernel: KernelId) -> list[tuple[str, str, str, str]]:
    """Piece, field, meaning and certainty, left to right; a piece that states several fields is
    written once.
    """
    found: list[tuple[str, str, str, str]] = []
    before = None
    for part in kernel.parts:
        piece = _cut(plain(part.text), _PIECE) if part.text else ABSENT
        found.append(
            ("" if part.text == before else piece, part.field, plain(part.meaning), part.certainty)
        )
        before = part.text
    return found


def heading(kernel: KernelId) -> list[str]:
    """The name, then its short form, family and role."""
    return [
        _cut(plain(kernel.name), _NAME),
        f"{plain(kernel.short)} · family {kernel.family} · role {kernel.role}",
    ]


def text(kernel: KernelId, remark: str = "") -> str:
    """Plain text for pipes, files and terminals without colour. The name is broken at blanks alone:
    people search for it.
    """
    found, (name, summary) = rows(kernel), heading(kernel)
    piece, field = (max((len(row[at]) for row in found), default=0) for at in (0, 1))
    lines = textwrap.wrap(name, WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
    lines += [
        line
        for said in (summary, plain(remark))
        for line in textwrap.wrap(said, WIDTH, break_on_hyphens=False)
    ] + [""]
    for row in found:
        lines += textwrap.wrap(
            f"{row[2]} [{row[3]}]",
            WIDTH,
            initial_indent=f"  {row[0]:{piece}}  {row[1]:{field}}  ",
            subsequent_indent=" " * (piece + field + 6),
            break_on_hyphens=False,
        )
    return "\n".join(line.rstrip() for line in lines)


def show(kernel: KernelId, remark: str = "") -> None:
    """The same on a terminal, in columns that wrap, with what is uncertain dimmed. Honours
    NO_COLOR.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    name, summary = heading(kernel)
    console.print(Text(name, style="bold"))
    console.print(Text(summary))
    if remark:
        console.print(Text(plain(remark)))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("piece", "field", "meaning", "certainty"):
        table.add_column(title, overflow="fold")
    for row in rows(kernel):
        style = "dim" if row[3] == "unknown" else ""
        table.add_row(*(Text(cell, style=style) for cell in row))
    console.print(table)


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"
