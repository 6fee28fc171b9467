"""DeepSeek: DeepGEMM (fp8 matrix products) and DeepEP (expert-parallel dispatch, combine)."""

from __future__ import annotations

from foretrace.families._words import library

FAMILIES = (
    library("deep_gemm", "DeepGEMM", states="lib"),
    library("deep_ep", "DeepEP", states="lib"),
)
