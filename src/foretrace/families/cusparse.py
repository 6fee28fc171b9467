"""cuSPARSE: sparse matrices; names are literal."""

from __future__ import annotations

from foretrace.families._literal import library

FAMILY = library(
    "cusparse",
    "cuSPARSE",
    {"void cusparse::csrmm_kernel<float, 256>(float*)": {"lib": "cuSPARSE", "dtype": "f32"}},
)
