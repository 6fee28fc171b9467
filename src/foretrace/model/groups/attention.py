"""Attention: fused kernels, what `scaled_dot_product_attention` launches, and attention by hand.

By hand it is a matmul, scale and mask, a softmax, dropout, a matmul.
"""

from __future__ import annotations

from foretrace.model.groups._group import GpuWork, Pattern, WorkGroup, named, word_test

_OPS = word_test(
    r"scaled_dot_product|(flash|efficient|cudnn|flex|paged|unified|mla)_attention|fmha"
)
_SCALE = "(mul|div|add|masked_fill|where|cast|copy)"


def _test(work: GpuWork) -> object:
    return work.role == "attention" or any(_OPS(op) for op in work.ops)


GROUP = WorkGroup(
    "attention",
    30,
    named("attention", _test),
    (Pattern(f"bmm {_SCALE}* softmax (cast|dropout|native_dropout|copy)* bmm", matmuls=True),),
)
