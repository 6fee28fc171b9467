"""ATen's multi-tensor kernels: `_foreach_*` ops and fused optimizers.

    multi_tensor_apply_kernel<TensorListMetadata<lists>, Functor<T, depth, inputs, result>,
        Op<…>, …>

The role is `optimizer` for arithmetic (in practice optimizers launch these), `copy` for copies,
`reduction` for norms. A result index of 0 is the in-place form (`_foreach_mul_`).
"""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._parser import NameParser, joined, word_set
from foretrace.names.families._words import op_word
from foretrace.schema.kernel import Family, KernelId

TEMPLATE = "multi_tensor_apply_kernel"
OPERATIONS = {
    "plus": "add",
    "minus": "sub",
    "multiplies": "mul",
    "divides": "div",
    "power_functor": "pow",
    "negate": "neg",
    "LerpFunctor": "lerp",
    "reverse_power_functor": "pow",
}
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


def _decode(name: str) -> KernelId | None:
    if TEMPLATE not in name[:200]:
        return None
    if _cpp.is_mangled(name):
        return _decode_mangled(name)
    cpp = _cpp.parse(name)
    if cpp.base != TEMPLATE or not cpp.scope.startswith("at::native"):
        return None
    r = _start(name)
    lists = _cpp.integer((_cpp.inside(cpp.arg(0), _cpp.leaf(cpp.arg(0))) or ("",))[-1])
    r.put(_cpp.leaf(cpp.arg(0)), "lists", lists, "{} tensor lists at once")
    functor = _cpp.leaf(cpp.arg(1))
    if not functor:
        return r.done("optimizer", "foreach")
    r.put(functor, "functor", functor, "the function applied to the lists")
    types = _cpp.inside(cpp.arg(1), functor)
    if functor in FUSED:
        adamw = "ADAM_MODE)1" in cpp.arg(1)
        return _fused(r, functor, _cpp.dtype(_cpp.nth(types, 0)), adamw)
    return _foreach(r, functor, types, cpp.arg(2))


def _start(name: str) -> NameParser:
    r = NameParser(name, "aten_multi_tensor", "documented")
    r.put(TEMPLATE, "template", TEMPLATE, "one launch for many tensors")
    return r


def _fused(r: NameParser, functor: str, dtype: str | None, adamw: bool) -> KernelId:
    op, short = FUSED[functor]
    if adamw:
        op, short = "aten::_fused_adamw_", "fused AdamW"
    r.put(functor, "op", op, "the whole optimizer step in one kernel")
    r.put(functor, "dtype", dtype, "works on {}")
    return r.done("optimizer", joined(short, dtype))


def _foreach(r: NameParser, functor: str, types: tuple[str, ...], operation: str) -> KernelId:
    word = _word(functor, _cpp.leaf(operation))
    dtype = _cpp.dtype(_cpp.nth(types, 0))
    written_to_first = word != "norm" and _cpp.integer(_cpp.nth(types, 3)) == 0
    in_place = word in ("copy", "zero") or written_to_first
    if word:
        meaning = "the op that launches it"
        r.put(functor, "op", f"aten::_foreach_{word}{'_' * in_place}", meaning, "checked")
    if functor == "CopyFunctor":
        source = _cpp.dtype(_cpp.nth(types, 1))
        return r.done("copy", joined("foreach copy", source and dtype and f"{source}->{dtype}"))
    r.put(_cpp.nth(types, 0), "dtype", dtype, "works on {}")
    return r.done(ROLES.get(word, "optimizer"), joined("foreach", word, dtype))


def _word(functor: str, operation: str) -> str:
    if functor.startswith("PointwiseOp"):
        return POINTWISE.get(operation, "")
    if functor.startswith(("LpNorm", "lpnorm")):
        return "norm"
    if functor in ("CopyFunctor", "ZeroFunctor"):
        return functor.removesuffix("Functor").lower()
    if functor.startswith(("Binary", "Unary", "Ternary")) and operation:
        word = op_word(operation)
        return OPERATIONS.get(operation) or (word if word in UNARY else "")
    return ""


def _decode_mangled(name: str) -> KernelId | None:
    words = _cpp.identifiers(name)
    if words[:2] != ("at", "native"):
        return None
    r = _start(name)
    r.put("_Z", "mangled", True, "the name stayed mangled")
    metadata = next((word for word in words if word.endswith("Metadata")), "")
    lists = _cpp.numbers_after(name, metadata) if metadata else []
    if lists:
        r.put(metadata, "lists", lists[-1], "{} tensor lists at once")
    functor = next((word for word in words if word.endswith("Functor")), "")
    if not functor:
        return r.done("optimizer", "foreach")
    r.put(functor, "functor", functor, "the function applied to the lists")
    dtype = _cpp.type_after(name, functor)
    if functor in FUSED:
        return _fused(r, functor, dtype, "ADAM_MODEE1E" in name)
    return r.done("optimizer", joined("foreach", dtype))


FAMILY = Family("aten_multi_tensor", _decode, 40, word_set("op lists dtype"))
