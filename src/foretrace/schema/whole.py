"""Whole numbers written as text: what a trace calls a number need not be one."""

from __future__ import annotations

import re

INT64 = range(-(1 << 63), 1 << 63)
# Python also reads the digits of other scripts, underscores and blanks, and refuses 4,301 digits
_WHOLE = re.compile(r"-?[0-9]{1,19}")


def whole(text: str) -> int | None:
    """A number of at most 64 bits in plain digits; None for any other text."""
    if not _WHOLE.fullmatch(text):
        return None
    number = int(text)
    return number if number in INT64 else None
