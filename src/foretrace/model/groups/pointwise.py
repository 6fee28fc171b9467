"""Pointwise kernels that no other group explains; foreach kernels outside the optimizer."""

from __future__ import annotations

from foretrace.model.groups._group import WorkGroup, named

GROUP = WorkGroup(
    "pointwise",
    95,
    named("pointwise", lambda work: work.role in ("pointwise", "optimizer")),
    weak=True,
    with_backward=False,
)
