"""Pieces of a kernel's name, found in one pass: names come from the trace and may be long and odd."""

from __future__ import annotations

import re


def after(name: str, template: str, piece: re.Pattern[str]) -> re.Match[str] | None:
    """The first such piece behind the first place where `template` stands."""
    at = name.find(template)
    return piece.search(name, at + len(template)) if at >= 0 else None
