"""Sections as data for a page's script."""

from __future__ import annotations

from foretrace.show.render.safe import plain
from foretrace.show.render.section import Section


def safe(value: object) -> object:
    """A section as plain data, each text of it on one line and without marks of direction."""
    if isinstance(value, Section):
        return {name: safe(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, str):
        return plain(value)
    return [safe(each) for each in value] if isinstance(value, list | tuple) else value
