"""Reads and writes at indices."""

from __future__ import annotations

from foretrace.model.groups._group import WorkGroup, named

GROUP = WorkGroup(
    "gather, scatter",
    88,
    named("gather, scatter", lambda work: work.role == "scatter_gather"),
    weak=True,
    with_backward=False,
)
