"""Where the files of a job are: a folder or a zip, and which of its ranks are wanted."""

from __future__ import annotations

import os

from msgspec import Struct

from foretrace.errors import UsageError
from foretrace.opening import refused
from foretrace.schema.documents.sets import LeftOut
from foretrace.schema.whole import whole
from foretrace.sources.folder import searched
from foretrace.sources.limits import Limits

MOST_NUMBERS = 1 << 20


class Places(Struct, frozen=True):
    """The files of a job with their sizes, by path, and what is named like a trace and is none."""

    files: dict[str, int]
    left_out: list[LeftOut]


def places(path: str, limits: Limits) -> Places:
    """The files of a job."""
    found = searched(path, limits)
    if found is None:
        return Places({path: size_of(path)}, [])
    left_out = [refused(each, problem) for each, problem in found.files if problem]
    return Places({each: size_of(each) for each in found.traces}, left_out)


def size_of(path: str) -> int:
    """The bytes of a file; 0 where they are not known."""
    return os.path.getsize(path) if os.path.isfile(path) else 0


def numbers(option: str, text: str | None) -> frozenset[int] | None:
    """`0-63,128` as numbers; None where nothing is chosen."""
    if text is None:
        return None
    chosen: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        low, high = whole(first), whole(last) if dash else whole(first)
        if low is None or high is None or low < 0 or not 0 <= high - low < MOST_NUMBERS:
            raise UsageError(f"{option} {text!r}: write numbers and ranges, as in 0-63,128")
        chosen.update(range(low, high + 1))
    return frozenset(chosen)
