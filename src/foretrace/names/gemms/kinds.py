"""Kinds of matmuls: those of one kind get kernels of the same generation."""

from __future__ import annotations

from foretrace.schema.gemms import NARROW, GemmPoint

ALIGNED, NOT_ALIGNED = "16-bit and fp8, aligned", "16-bit, not aligned"
KINDS = (ALIGNED, NOT_ALIGNED, "tf32", "fp32")


def kind_of(point: GemmPoint) -> str:
    """The kind of a matmul."""
    if point.dtype not in NARROW:
        return point.dtype
    return ALIGNED if point.aligned else NOT_ALIGNED
