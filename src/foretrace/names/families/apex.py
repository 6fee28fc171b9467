"""Apex: multi-tensor optimizers without ATen's namespace, and its layer norm.

Names:

    multi_tensor_apply_kernel<TensorListMetadata<lists>, <Functor><T, …>, …>
"""

from __future__ import annotations

from foretrace.names.families import _cpp, _words
from foretrace.names.families._parser import NameParser, joined, rx, word_set
from foretrace.schema.kernel import Family, KernelId

_NORMS = (
    r"(?:void )?cu(?:ApplyLayerNorm|ApplyRMSNorm|ComputePartGradGammaBeta|ComputeGradGammaBeta"
    r"|ComputeGradInput)\w*<"
)


def _decode(name: str) -> KernelId | None:
    if rx(_NORMS).match(name):
        kernel = _words.literal(name, _cpp.parse(name), "apex", "Apex")
        return KernelId(name, kernel.short, "apex", "normalization", kernel.fields, kernel.parts)
    if "multi_tensor_apply_kernel<" not in name[:60]:
        return None
    cpp = _cpp.parse(name)
    return _lists(name, cpp) if not cpp.scope and "TensorListMetadata" in cpp.arg(0) else None


def _lists(name: str, cpp: _cpp.Cpp) -> KernelId:
    r = NameParser(name, "apex")
    lists = _cpp.integer((_cpp.inside(cpp.arg(0), "TensorListMetadata") or ("",))[-1])
    r.put("TensorListMetadata", "lists", lists, "{} tensor lists at once")
    functor = _cpp.leaf(cpp.arg(1))
    r.put(functor, "functor", functor, "the function applied to the lists")
    element = _cpp.nth(_cpp.inside(cpp.arg(1), functor), 0)
    dtype = _cpp.put_dtype(r, element, "dtype", "works on {}")
    word = functor.removesuffix("Functor")
    return r.done("reduction" if "Norm" in word else "optimizer", joined("apex", word, dtype))


FAMILY = Family("apex", _decode, 42, word_set("functor lists dtype lib"))
