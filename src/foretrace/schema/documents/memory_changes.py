"""`foretrace memory A B --json`: what changed in the memory from A to B."""

from __future__ import annotations

from msgspec import Struct

SCHEMA = 1


class HeldChange(Struct, frozen=True):
    """Bytes at the peak of each side: of a category, or of a line with its category.

    `change` is one of same, grew, shrank, new, gone. A line that only moved in its function is the
    same line, under its name in B.
    """

    name: str
    category: str
    a_bytes: int
    b_bytes: int
    change: str


class MemoryChanges(Struct, frozen=True):
    """Both peaks, the verdict in a sentence, and the parts, the largest change first."""

    a: str
    b: str
    a_peak_bytes: int
    b_peak_bytes: int
    a_reserved_bytes: int
    b_reserved_bytes: int
    a_growth_bytes: int
    b_growth_bytes: int
    verdict: str
    categories: list[HeldChange]
    lines: list[HeldChange]
    schema: int = SCHEMA


DOCUMENT = MemoryChanges
