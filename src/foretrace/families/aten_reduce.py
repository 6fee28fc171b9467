"""ATen's reductions:
`reduce_kernel<max_threads, out_vec, ReduceOp<Tin, Op, index, Tout, vt0[, in_vec]>>`.
"""

from __future__ import annotations

from foretrace.families import _cpp, _dtypes
from foretrace.families._reading import Reading
from foretrace.schema.kernel import Family, KernelId

# Op of the ReduceOp -> (aten op, short)
OPS = {
    "MeanOps": ("aten::mean", "mean {}"),
    "sum_functor": ("aten::sum", "sum {}"),
    "nansum_functor": ("aten::nansum", "nansum {}"),
    "prod_functor": ("aten::prod", "prod {}"),
    "xor_sum_functor": ("aten::hash_tensor", "xor sum {}"),
    "NormTwoOps": ("aten::norm", "norm {}"),
    "NormOps": ("aten::norm", "norm {}"),
    "NormOneOps": ("aten::norm", "norm {}"),
    "NormZeroOps": ("aten::norm", "norm {}"),
    "AbsMaxOps": ("aten::norm", "norm (max) {}"),
    "AbsMinOps": ("aten::norm", "norm (min) {}"),
    "ArgMaxOps": ("aten::argmax", "argmax {}"),
    "ArgMinOps": ("aten::argmin", "argmin {}"),
    "MaxOps": ("aten::max", "max {}"),
    "MinOps": ("aten::min", "min {}"),
    "MaxNanFunctor": ("aten::max", "max {}"),
    "MinNanFunctor": ("aten::min", "min {}"),
    "MinMaxOps": ("aten::aminmax", "aminmax {}"),
    "and_kernel_cuda": ("aten::all", "all ({})"),
    "or_kernel_cuda": ("aten::any", "any ({})"),
    "WelfordOps": ("aten::var / std", "var/std (Welford) {}"),
}
# Ops whose template names the accumulator as its second type.
ACCUMULATED = (
    "sum_functor",
    "nansum_functor",
    "prod_functor",
    "MeanOps",
    "NormTwoOps",
    "NormOps",
    "NormOneOps",
)


def decode(name: str) -> KernelId | None:
    if "reduce_kernel" not in name[:120]:
        return None
    cpp = _cpp.parse(name)
    if cpp.base != "reduce_kernel" or not (cpp.scope == "at::native" or "ReduceOp<" in name):
        return None
    r = Reading(name, "aten_reduce")
    r.put(cpp.base, "template", cpp.base, "ATen's reduction template", "documented")
    sizes = ((0, "max_threads", "threads per block at most"), (1, "out_vec", "outputs per thread"))
    for place, field, meaning in sizes:
        value = _cpp.integer(cpp.arg(place))
        if value is not None:
            r.put(cpp.arg(place), field, value, f"{value} {meaning}", "documented")
    return _reduce_op(r, _cpp.inside(name, "ReduceOp"), cpp.truncated)


def _reduce_op(r: Reading, args: tuple[str, ...], truncated: bool) -> KernelId:
    dtype = _dtypes.cpp(args[0]) if args else None
    if dtype:
        r.put(args[0], "dtype_in", dtype, f"reads {dtype}", "checked")
    if truncated:
        r.put("", "truncated", True, "a bracket does not close: the name was cut", "checked")
    functor = _functor(args)
    if functor not in OPS:
        return r.done("reduction", f"reduce {dtype or ''}".strip())
    op, short = OPS[functor]
    r.put(functor, "op", op, "what is computed along the reduced dimension", "checked")
    types = _cpp.inside(args[1], functor)
    acc = _dtypes.cpp(types[1]) if functor in ACCUMULATED and len(types) > 1 else None
    if acc:
        r.put(types[1], "dtype_acc", acc, f"sums are kept in {acc}", "documented")
    out = _dtypes.cpp(args[3]) if len(args) > 3 else None
    if out:
        r.put(args[3], "dtype_out", out, f"writes {out}", "documented")
    return r.done("reduction", short.format(dtype or "").strip())


def _functor(args: tuple[str, ...]) -> str:
    if len(args) < 2:
        return ""
    wrapped = _cpp.inside(args[1], "func_wrapper_t")
    return _cpp.leaf(wrapped[1] if len(wrapped) > 1 else args[1])


FAMILY = Family(
    name="aten_reduce",
    decode=decode,
    order=40,
    examples={
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<c10::BFloat16, "
        "at::native::MeanOps<c10::BFloat16, "
        "float, float, c10::BFloat16>, unsigned int, c10::BFloat16, 4, 4> >(P)": {
            "op": "aten::mean",
            "dtype_in": "bf16",
            "dtype_acc": "f32",
            "max_threads": 512,
            "out_vec": 1,
        },
        "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float, "
        "at::native::MaxOps<float>, unsigned int, "
        "float, 4> >(P)": {"op": "aten::max", "dtype_in": "f32"},
    },
)
