"""cuSPARSE: sparse matrices; names are literal."""

from __future__ import annotations

from foretrace.names.families._words import library

FAMILY = library("cusparse", "cuSPARSE", states="lib dtype")
