"""Transformer Engine: norms, rope, casts under `transformer_engine::`. Its matrix products are
cuBLASLt's own names.
"""

from __future__ import annotations

from foretrace.families._words import library

FAMILY = library("transformer_engine", "Transformer Engine")
