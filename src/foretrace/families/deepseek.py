"""DeepSeek's libraries: DeepGEMM (fp8 matrix products) and DeepEP (expert-parallel dispatch and
combine).
"""

from __future__ import annotations

from foretrace.families._words import library

FAMILIES = (library("deep_gemm", "DeepGEMM"), library("deep_ep", "DeepEP"))
