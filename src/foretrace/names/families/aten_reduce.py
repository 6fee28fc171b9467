"""ATen's reductions: `reduce_kernel<max_threads, out_vec, ReduceOp<Tin, Op, index, Tout, …>>`."""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._parser import NameParser, joined, row_for, word_set
from foretrace.schema.kernel import Family, KernelId

# op without `aten::`, short name, functor of the ReduceOp
OPS = """
    mean         mean {}               MeanOps
    sum          sum {}                sum_functor
    nansum       nansum {}             nansum_functor
    prod         prod {}               prod_functor
    hash_tensor  xor sum {}            xor_sum_functor
    norm         norm {}               NormTwoOps|NormOps|NormOneOps|NormZeroOps
    norm         norm (max) {}         AbsMaxOps
    norm         norm (min) {}         AbsMinOps
    argmax       argmax {}             ArgMaxOps
    argmin       argmin {}             ArgMinOps
    max          max {}                MaxOps|MaxNanFunctor
    min          min {}                MinOps|MinNanFunctor
    aminmax      aminmax {}            MinMaxOps
    all          all ({})              and_kernel_cuda
    any          any ({})              or_kernel_cuda
    var / std    var/std (Welford) {}  WelfordOps
"""
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
    dtype = _cpp.put_dtype(r, _cpp.nth(args, 0), "dtype_in", "reads {}", "checked")
    if truncated:
        r.put("", "truncated", True, "a bracket does not close: the name was cut", "checked")
    functor = _functor(args)
    row = row_for(OPS, functor)
    if not row:
        return r.done("reduction", joined("reduce", dtype))
    op, short = row
    r.put(functor, "op", f"aten::{op}", "what is computed along the reduced dimension", "checked")
    kept = _cpp.nth(_cpp.inside(args[1], functor), 1) if functor in ACCUMULATED else ""
    _cpp.put_dtype(r, kept, "dtype_acc", "sums are kept in {}")
    _cpp.put_dtype(r, _cpp.nth(args, 3), "dtype_out", "writes {}")
    return r.done("reduction", short.format(dtype or "").strip())


def _functor(args: tuple[str, ...]) -> str:
    if len(args) < 2:
        return ""
    wrapped = _cpp.inside(args[1], "func_wrapper_t")
    return _cpp.leaf(wrapped[1] if len(wrapped) > 1 else args[1])


FAMILY = Family("aten_reduce", _decode, 40, word_set("op dtype_in dtype_acc max_threads out_vec"))
