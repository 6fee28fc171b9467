"""ATen's reductions: `reduce_kernel<max_threads, out_vec, ReduceOp<Tin, Op, index, Tout, …>>`."""

from __future__ import annotations

from foretrace.families import _cpp, _dtypes
from foretrace.families._parser import NameParser, joined, word_set
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
ACCUMULATED = word_set(
    "sum_functor nansum_functor prod_functor MeanOps NormTwoOps NormOps NormOneOps"
)


def _decode(name: str) -> KernelId | None:
    if "reduce_kernel" not in name[:120]:
        return None
    cpp = _cpp.parse(name)
    if cpp.base != "reduce_kernel" or not (cpp.scope == "at::native" or "ReduceOp<" in name):
        return None
    r = NameParser(name, "aten_reduce", "documented")
    r.put(cpp.base, "template", cpp.base, "ATen's reduction template")
    sizes = ((0, "max_threads", "threads per block at most"), (1, "out_vec", "outputs per thread"))
    for place, field, meaning in sizes:
        value = _cpp.integer(cpp.arg(place))
        r.put(cpp.arg(place), field, value, f"{value} {meaning}")
    return _reduce_op(r, _cpp.inside(name, "ReduceOp"), cpp.truncated)


def _reduce_op(r: NameParser, args: tuple[str, ...], truncated: bool) -> KernelId:
    dtype = _dtypes.cpp(_cpp.nth(args, 0))
    r.put(_cpp.nth(args, 0), "dtype_in", dtype, "reads {}", "checked")
    if truncated:
        r.put("", "truncated", True, "a bracket does not close: the name was cut", "checked")
    functor = _functor(args)
    if functor not in OPS:
        return r.done("reduction", joined("reduce", dtype))
    op, short = OPS[functor]
    r.put(functor, "op", op, "what is computed along the reduced dimension", "checked")
    kept = _cpp.nth(_cpp.inside(args[1], functor), 1) if functor in ACCUMULATED else ""
    r.put(kept, "dtype_acc", _dtypes.cpp(kept), "sums are kept in {}")
    r.put(_cpp.nth(args, 3), "dtype_out", _dtypes.cpp(_cpp.nth(args, 3)), "writes {}")
    return r.done("reduction", short.format(dtype or "").strip())


def _functor(args: tuple[str, ...]) -> str:
    if len(args) < 2:
        return ""
    wrapped = _cpp.inside(args[1], "func_wrapper_t")
    return _cpp.leaf(wrapped[1] if len(wrapped) > 1 else args[1])


FAMILY = Family("aten_reduce", _decode, 40, word_set("op dtype_in dtype_acc max_threads out_vec"))
