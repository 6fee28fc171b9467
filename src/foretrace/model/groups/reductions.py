"""Sums, means and other reductions that no other group explains."""

from __future__ import annotations

from foretrace.model.groups._group import WorkGroup, named

GROUP = WorkGroup(
    "reductions",
    86,
    named("reductions", lambda work: work.role == "reduction"),
    weak=True,
    with_backward=False,
)
