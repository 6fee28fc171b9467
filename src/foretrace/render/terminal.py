"""`look` as text for people: fits 100 columns, readable without colour."""

from __future__ import annotations

from typing import Any

from foretrace.render.look_page import sections
from foretrace.render.section import drawn


def look_text(document: dict[str, Any], top: int, *, bold: bool = False) -> str:
    """The whole page; `bold` marks its headings, for a terminal that shows them."""
    return drawn(sections(document, top), bold=bold)
