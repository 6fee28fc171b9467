"""Rotary position embedding: its tables of cos and sin, and
the turned pairs (rotate_half, two matmuls, a sum).
"""

from __future__ import annotations

from foretrace.model.groups._group import (
    MATMULS,
    GpuWork,
    Pattern,
    WorkGroup,
    named,
    word_test,
    words,
)

_KERNEL = word_test(r"rope|rotary")
_CLASS = word_test(r"Rotary|RoPE")
_ROTATES = words("add cat mul neg")
_TABLES = words("cos sin")


def _test(work: GpuWork) -> object:
    if work.origins:
        turned = {"cat", "mul"} <= work.origins and work.origins & _TABLES
        return (turned or work.origins >= _ROTATES) and not work.reduces
    if _CLASS(work.module):
        return work.role not in MATMULS
    return _KERNEL(work.words) or any(_KERNEL(op) for op in work.ops)


GROUP = WorkGroup(
    "RoPE",
    50,
    named("RoPE", _test),
    (
        Pattern("mul neg cat mul add", same_size=True),
        Pattern("(cast cast?)? (gemm|bmm) cat cos mul? sin mul? (cast cast)?"),
        Pattern("(cast cast?)? mul cat cos mul? sin mul? (cast cast)?"),
    ),
)
