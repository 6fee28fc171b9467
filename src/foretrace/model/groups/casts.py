"""Copies that only change the element type."""

from __future__ import annotations

from foretrace.model.groups._group import WorkGroup, named
from foretrace.model.groups._sequence import changes_type

GROUP = WorkGroup(
    "casts",
    80,
    named("casts", lambda work: work.role == "copy" and changes_type(work)),
    weak=True,
    with_backward=False,
)
