"""SwiGLU: silu of one half times the other, in one kernel or two."""

from __future__ import annotations

from foretrace.model.groups._group import PRODUCTS, GpuWork, Pattern, WorkGroup, named, word_test

_KERNEL = word_test(r"silu_?(and_?)?mul|swiglu|act_and_mul.*silu")


def _test(work: GpuWork) -> object:
    if work.origins:
        return work.origins >= {"silu", "mul"} and not work.reduces
    named_so = _KERNEL(work.words) or any(_KERNEL(op) for op in work.ops)
    return named_so and work.role not in PRODUCTS


GROUP = WorkGroup(
    "SwiGLU",
    52,
    named("SwiGLU", _test),
    (Pattern("silu gemm* mul", same_size=True),),
)
