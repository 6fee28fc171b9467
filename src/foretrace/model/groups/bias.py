"""A bias added by a kernel of its own, inside the op of a matmul or a convolution."""

from __future__ import annotations

from foretrace.model.groups._group import GpuWork, WorkGroup, named, word_test

_OPS = word_test(r"^(linear|addmm|baddbmm|conv\dd|convolution)$")


def _test(work: GpuWork) -> object:
    return work.role == "pointwise" and any(_OPS(op) for op in work.ops)


GROUP = WorkGroup("bias", 65, named("bias", _test), with_backward=False)
