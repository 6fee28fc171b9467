"""Matmuls."""

from __future__ import annotations

from foretrace.model.groups._group import MATMULS, WorkGroup, named

GROUP = WorkGroup("GEMM", 64, named("GEMM", lambda work: work.role in MATMULS), with_backward=False)
