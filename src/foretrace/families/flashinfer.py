"""FlashInfer: `flashinfer::norm::FusedAddRMSNormKernel<…>`, `BatchPrefillWithPagedKVCacheKernel`;
names are literal.
"""

from __future__ import annotations

from foretrace.families._words import library

FAMILY = library("flashinfer", "FlashInfer")
