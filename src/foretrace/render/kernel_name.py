"""A decoded kernel name, drawn part by part for people."""

from __future__ import annotations

import textwrap

from msgspec import UNSET

from foretrace.render.safe import plain
from foretrace.render.section import WIDTH
from foretrace.schema.documents.name import DecodedName

ABSENT = "(not there)"  # how a part is shown that speaks by being left out
_PIECE, _NAME = 30, 400  # characters shown of one piece, of the whole name


def text(document: DecodedName) -> str:
    """One row per part. The name breaks at blanks alone: people search for it."""
    rows, name = _rows(document), _cut(plain(document.name), _NAME)
    summary = [f"{plain(document.short)} · family {document.family} · role {document.role}"]
    summary += [] if document.gpu is UNSET else [plain(document.gpu.text)]
    piece, field = (max((len(row[at]) for row in rows), default=0) for at in (0, 1))
    lines = textwrap.wrap(name, WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
    for said in summary:
        lines += textwrap.wrap(said, WIDTH, break_on_hyphens=False)
    lines.append("")
    for row in rows:
        lines += textwrap.wrap(
            f"{row[2]} [{row[3]}]",
            WIDTH,
            initial_indent=f"  {row[0]:{piece}}  {row[1]:{field}}  ",
            subsequent_indent=" " * (piece + field + 6),
            break_on_hyphens=False,
        )
    return "\n".join(line.rstrip() for line in lines)


def _rows(document: DecodedName) -> list[tuple[str, str, str, str]]:
    """Piece, field, meaning, certainty; a piece that states several fields is written once."""
    found, before = list[tuple[str, str, str, str]](), None
    for part in document.parts:
        piece = _cut(plain(part.text), _PIECE) if part.text else ABSENT
        shown = "" if part.text == before else piece
        found.append((shown, part.field, plain(part.meaning), part.certainty))
        before = part.text
    return found


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"
