"""RMSNorm: fused, compiled, or by hand.

By hand it is x.float(), pow, mean, add eps, rsqrt, mul, a cast back and the weight, in the order of
Llama, T5 or Gemma (which adds 1 to the weight).
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

_KERNEL = word_test(r"rms_?norm|rms_norm|add_rms")
_CLASS = word_test(r"RMSNorm|RmsNorm|T5LayerNorm")
_OPS = words("rms_norm fused_rms_norm fused_rms_norm_backward fused_add_rms_norm")
_FUSED = words("_fused_rms_norm _fused_rms_norm_backward rms_norm fused_add_rms_norm")
_CENTRED = words("sub var var_mean std")
_BY_HAND = words("mean pow rsqrt")
_BACKWARD = words("div expand mul pow sum")  # the gradient of mean expands and divides


def _test(work: GpuWork) -> object:
    if work.origins:
        return work.origins & _FUSED or (work.reduces and _compiled(work.origins))
    in_module = _CLASS(work.module) and work.role not in MATMULS
    return in_module or work.ops & _OPS or _KERNEL(work.words)


def _compiled(origins: frozenset[str]) -> bool:
    """A norm that subtracts the mean is another one."""
    return (origins >= _BY_HAND or origins >= _BACKWARD) and not origins & _CENTRED


GROUP = WorkGroup(
    "RMSNorm",
    45,
    named("RMSNorm", _test),
    (
        Pattern(
            "(?<!sub) (?<!sub cast) cast? (pow|square) mean add (rsqrt mul|sqrt div)"
            "(cast? add mul cast?|cast mul|mul)?"
        ),
    ),
)
