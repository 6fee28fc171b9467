"""Transformer Engine: norms, rope, casts. Its matmuls have cuBLASLt's own names."""

from __future__ import annotations

from foretrace.names.families._words import library

FAMILY = library("transformer_engine", "Transformer Engine", states="lib")
