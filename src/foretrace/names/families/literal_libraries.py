"""Libraries whose names are literal: cuSPARSE (sparse matrices), DeepEP (dispatch and combine of
expert parallelism), Transformer Engine (norms, rope, casts; its matmuls have cuBLASLt's own names).
"""

from __future__ import annotations

from foretrace.names.families._words import library

FAMILIES = (
    library("cusparse", "cuSPARSE", states="lib dtype"),
    library("deep_ep", "DeepEP", states="lib"),
    library("transformer_engine", "Transformer Engine", states="lib"),
)
