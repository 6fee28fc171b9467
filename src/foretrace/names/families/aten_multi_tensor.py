"""ATen's multi-tensor kernels: `_foreach_*` ops and fused optimizers.

    multi_tensor_apply_kernel<TensorListMetadata<lists>, Functor<T, depth, inputs, result>,
        Op<…>, …>

The role is `optimizer` for arithmetic (in practice optimizers launch these), `copy` for copies,
`reduction` for norms. A result index of 0 is the in-place form (`_foreach_mul_`).
"""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._parser import KernelId, NameParser, family, row_for, word_set
from foretrace.names.families._words import op_word

TEMPLATE = "multi_tensor_apply_kernel"
UNARY = word_set("""
    copy sqrt rsqrt exp expm1 log log2 log10 log1p abs reciprocal sign sin cos tan tanh sigmoid
    erf floor ceil round trunc
""")
POINTWISE = {"multiplies": "addcmul", "divides": "addcdiv"}
FUSED = {
    "FusedAdamMathFunctor": ("aten::_fused_adam_", "fused Adam"),
    "FusedSgdMathFunctor": ("aten::_fused_sgd_", "fused SGD"),
    "FusedAdagradMathFunctor": ("aten::_fused_adagrad_", "fused Adagrad"),
}
ROLES = {"copy": "copy", "norm": "reduction", "zero": "pointwise"}


def _decode(r: NameParser) -> KernelId | None:
    if _cpp.is_mangled(r.name):
        return _decode_mangled(r)
    if r.base != TEMPLATE or not r.cpp.scope.startswith("at::native"):
        return None
    r.put(TEMPLATE, "template", TEMPLATE, "one launch for many tensors")
    metadata, functor = _cpp.leaf(r.arg(0)), _cpp.leaf(r.arg(1))
    lists = _cpp.integer((_cpp.inside(r.arg(0), metadata) or ("",))[-1])
    r.put(metadata, "lists", lists)
    if not functor:
        return r.done("optimizer", "foreach")
    r.put(functor, "functor", functor, _APPLIED)
    types = _cpp.inside(r.arg(1), functor)
    if functor in FUSED:
        return _fused(r, functor, _cpp.dtype(_cpp.nth(types, 0)), "ADAM_MODE)1" in r.arg(1))
    word = _word(functor, _cpp.leaf(r.arg(2)))
    dtype = _cpp.dtype(_cpp.nth(types, 0))
    written_to_first = word != "norm" and _cpp.integer(_cpp.nth(types, 3)) == 0
    in_place = word in ("copy", "zero") or written_to_first
    r.put(functor, "op", word and f"aten::_foreach_{word}{'_' * in_place}", certainty="checked")
    if functor == "CopyFunctor":
        source = _cpp.dtype(_cpp.nth(types, 1))
        return r.done("copy", "foreach copy", source and dtype and f"{source}->{dtype}")
    r.put(_cpp.nth(types, 0), "dtype", dtype)
    return r.done(ROLES.get(word, "optimizer"), "foreach", word, dtype)


def _fused(r: NameParser, functor: str, dtype: str | None, adamw: bool) -> KernelId:
    op, short = ("aten::_fused_adamw_", "fused AdamW") if adamw else FUSED[functor]
    r.put(functor, "op", op, "the whole optimizer step in one kernel")
    r.put(functor, "dtype", dtype)
    return r.done("optimizer", short, dtype)


def _word(functor: str, operation: str) -> str:
    if functor.startswith("PointwiseOp"):
        return POINTWISE.get(operation, "")
    if functor.startswith(("LpNorm", "lpnorm")):
        return "norm"
    if functor in ("CopyFunctor", "ZeroFunctor"):
        return functor.removesuffix("Functor").lower()
    if functor.startswith(("Binary", "Unary", "Ternary")) and operation:
        if row := row_for("foreach", operation):
            return row[0]
        word = op_word(operation)
        return word if word in UNARY else ""
    return ""


def _decode_mangled(r: NameParser) -> KernelId | None:
    words = _cpp.identifiers(r.name)
    if words[:2] != ("at", "native"):
        return None
    r.put(TEMPLATE, "template", TEMPLATE, "one launch for many tensors")
    r.put("_Z", "mangled", True)
    metadata = next((word for word in words if word.endswith("Metadata")), "")
    lists = _cpp.numbers_after(r.name, metadata) if metadata else []
    r.put(metadata, "lists", lists[-1] if lists else None)
    functor = next((word for word in words if word.endswith("Functor")), "")
    r.put(functor, "functor", functor, _APPLIED)
    dtype = _cpp.type_after(r.name, functor) if functor else ""
    if functor in FUSED:
        return _fused(r, functor, dtype, "ADAM_MODEE1E" in r.name)
    return r.done("optimizer", "foreach", dtype)


_APPLIED = "the function applied to the lists"
FAMILY = family("aten_multi_tensor", _decode, 40, "op lists dtype", "documented", hint=TEMPLATE)
