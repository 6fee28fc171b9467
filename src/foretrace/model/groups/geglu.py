"""GeGLU: gelu of one half times the other, in one kernel or two."""

from __future__ import annotations

from foretrace.model.groups._group import PRODUCTS, GpuWork, Pattern, WorkGroup, named, word_test

_KERNEL = word_test(r"gelu_?(and_?)?mul|geglu|act_and_mul.*gelu")


def _test(work: GpuWork) -> object:
    if work.origins:
        return work.origins >= {"gelu", "mul"} and not work.reduces
    named_so = _KERNEL(work.words) or any(_KERNEL(op) for op in work.ops)
    return named_so and work.role not in PRODUCTS


GROUP = WorkGroup(
    "GeGLU",
    52,
    named("GeGLU", _test),
    (Pattern("gelu gemm* mul", same_size=True),),
)
