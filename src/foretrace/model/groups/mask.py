"""Positions and masks: counting up, comparing, and the mask that comes of it."""

from __future__ import annotations

from foretrace.model.groups._group import GpuWork, Pattern, WorkGroup, named, words

_OPS = words("tril triu")


def _test(work: GpuWork) -> object:
    counts = work.origins & words("arange iota tril triu")
    compares = work.origins & words("le lt ge gt tril triu")
    return work.ops & _OPS or (counts and compares)


_NEXT = "arange|add|sub|le|lt|ge|gt|ne|eq|bitwise_and|logical_and|where"

GROUP = WorkGroup(
    "positions, mask", 72, named("positions, mask", _test), (Pattern(f"arange ({_NEXT})*"),)
)
