"""Random numbers."""

from __future__ import annotations

from foretrace.model.groups._group import WorkGroup, named

GROUP = WorkGroup(
    "random numbers",
    90,
    named("random numbers", lambda work: work.role == "random"),
    weak=True,
    with_backward=False,
)
