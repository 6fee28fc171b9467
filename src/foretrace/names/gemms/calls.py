"""From an op's call and its kernel to the matmul that it computed."""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.names import families
from foretrace.schema.gemms import LAYOUTS, GemmPoint

TYPES = {"c10::BFloat16": "bf16", "c10::Half": "fp16", "c10::Float8_e4m3fn": "fp8"}
FIRST_FACTOR = {"aten::mm": 0, "aten::addmm": 1}


def gemm_point(
    op: str | None, dims: Sequence[Sequence[int]], types: Sequence[str], kernel: str
) -> GemmPoint | None:
    """The matmul; None where the call is no plain one, or the kernel's name has no layout."""
    first = FIRST_FACTOR.get(op or "")
    if first is None or len(dims) < first + 2 or len(types) < first + 2:
        return None
    left, right = dims[first : first + 2]
    if len(left) != 2 or len(right) != 2 or (first and len(dims[0]) != 1):
        return None  # a batch; or a whole matrix is added, which no map holds
    (m, k), (depth, n) = left, right
    named = families.decode(kernel)
    layout, dtype = str(named.get("layout"))[:2], _dtype(types[first], str(named.get("math_dtype")))
    if k != depth or layout not in LAYOUTS or dtype is None or min(m, n, k) < 1:
        return None
    return GemmPoint(m, n, k, layout, dtype, "bias" if first else "none")


def _dtype(written: str, math: str) -> str | None:
    if written == "float":
        return "tf32" if math == "tf32" else "fp32"
    return TYPES.get(written)
