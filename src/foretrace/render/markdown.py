"""`look` as Markdown: the same page, every name escaped."""

from __future__ import annotations

from typing import Any

from foretrace.render.look_page import sections
from foretrace.render.section import marked


def look_text(document: dict[str, Any], top: int) -> str:
    """The whole page; its first heading is the path of the trace."""
    return marked(sections(document, top))
