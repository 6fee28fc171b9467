"""DeepSeek's libraries: DeepGEMM (fp8 matrix products) and DeepEP (expert-parallel dispatch and
combine).
"""

from __future__ import annotations

from foretrace.families._literal import library

FAMILIES = (
    library(
        "deep_gemm",
        "DeepGEMM",
        {"void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 2048u, 7168u>(float*)": {"lib": "DeepGEMM"}},
    ),
    library(
        "deep_ep",
        "DeepEP",
        {"void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)": {"lib": "DeepEP"}},
    ),
)
