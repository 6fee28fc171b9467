"""LayerNorm: fused, compiled, or by hand."""

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

_KERNEL = word_test(r"layer_?norm|ln_(fwd|bwd)")
_CLASS = word_test(r"LayerNorm")
_OPS = words("layer_norm native_layer_norm native_layer_norm_backward")


def _test(work: GpuWork) -> object:
    if work.origins:
        return any("layer_norm" in op for op in work.origins)
    in_module = _CLASS(work.module) and work.role not in MATMULS
    return in_module or work.ops & _OPS or _KERNEL(work.words)


_BY_HAND = "mean sub cast? (pow|square) mean add (rsqrt mul|sqrt div) (mul add|mul)?"
GROUP = WorkGroup("LayerNorm", 46, named("LayerNorm", _test), (Pattern(_BY_HAND),))
