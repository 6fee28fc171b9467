"""FlashInfer: `flashinfer::norm::FusedAddRMSNormKernel<…>`, `BatchPrefillWithPagedKVCacheKernel`;
names are literal.
"""

from __future__ import annotations

from foretrace.families._literal import library

FAMILY = library(
    "flashinfer",
    "FlashInfer",
    {
        "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(P)": {
            "lib": "FlashInfer",
            "dtype": "bf16",
        },
        "void flashinfer::BatchPrefillWithPagedKVCacheKernel<P>(P)": {"lib": "FlashInfer"},
    },
)
