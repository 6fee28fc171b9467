"""The sums of the parts of split-K matmuls."""

from __future__ import annotations

from foretrace.model.groups._group import WorkGroup, named

GROUP = WorkGroup(
    "split-K sums",
    62,
    named("split-K sums", lambda work: work.id.get("op") == "splitk_reduce"),
    with_backward=False,
)
