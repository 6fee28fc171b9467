"""DeepEP: dispatch and combine of expert parallelism. Names are literal."""

from __future__ import annotations

from foretrace.names.families._words import library

FAMILY = library("deep_ep", "DeepEP", states="lib")
