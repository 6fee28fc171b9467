"""Text from a trace made safe for where it is shown: every name in a trace is untrusted.

Nothing that draws may print a name without one of these: a raw ESC moves the cursor of a terminal,
a bidi override turns a line around, a pipe ends a table cell, an equals sign starts a formula in a
spreadsheet.
"""

from __future__ import annotations

# Printable by Unicode's rules and yet blank on screen: Hangul fillers and the Braille blank.
_BLANK = "\u115f\u1160\u3164\uffa0\u2800"
_MARKDOWN = str.maketrans({mark: f"\\{mark}" for mark in "\\`|[]()<>*_~$&@#!"})
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


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
    return f"'{shown}" if text.startswith(_FORMULA) else shown
