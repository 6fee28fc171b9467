"""Matrix products."""

from __future__ import annotations

from foretrace.model.groups._group import PRODUCTS, WorkGroup, named

GROUP = WorkGroup(
    "GEMM", 64, named("GEMM", lambda work: work.role in PRODUCTS), with_backward=False
)
