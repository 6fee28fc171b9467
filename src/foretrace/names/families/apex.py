"""Apex: multi-tensor optimizers without ATen's namespace, and its layer norm.

Names:

    multi_tensor_apply_kernel<TensorListMetadata<lists>, <Functor><T, …>, …>
"""

from __future__ import annotations

from msgspec.structs import replace

from foretrace.names.families import _cpp, _words
from foretrace.names.families._parser import KernelId, NameParser, family

_NORMS = (
    r"^(?:void )?cu(?:ApplyLayerNorm|ApplyRMSNorm|ComputePartGradGammaBeta|ComputeGradGammaBeta"
    r"|ComputeGradInput)\w*<"
)


def _decode(r: NameParser) -> KernelId | None:
    if "multi_tensor" not in r[0]:
        return replace(_words.literal(r, "Apex"), role="normalization")
    if r.cpp.scope or "TensorListMetadata" not in r.arg(0):
        return None
    lists = (_cpp.inside(r.arg(0), "TensorListMetadata") or ("",))[-1]
    r.put("TensorListMetadata", "lists", _cpp.integer(lists))
    functor = _cpp.leaf(r.arg(1))
    r.put(functor, "functor", functor, "the function applied to the lists")
    r.read(_cpp.nth(_cpp.inside(r.arg(1), functor), 0), "dtype")
    word = functor.removesuffix("Functor")
    return r.done("reduction" if "Norm" in word else "optimizer", f"apex {word} {{dtype}}")


_HINT = rf"multi_tensor_apply_kernel<|{_NORMS}"
FAMILY = family("apex", _decode, 42, "functor lists dtype lib", hint=_HINT)
