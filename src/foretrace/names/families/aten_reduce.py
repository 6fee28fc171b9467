"""ATen's reductions: `reduce_kernel<max_threads, out_vec, ReduceOp<Tin, Op, index, Tout, …>>`."""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._parser import NameParser, family
from foretrace.names.families._tables import row_for, word_set
from foretrace.schema.kernel import KernelId

# op without `aten::`, short name, functor of the ReduceOp
OPS = """
    mean         mean {dtype_in}               MeanOps
    sum          sum {dtype_in}                sum_functor
    nansum       nansum {dtype_in}             nansum_functor
    prod         prod {dtype_in}               prod_functor
    hash_tensor  xor sum {dtype_in}            xor_sum_functor
    norm         norm {dtype_in}               NormTwoOps|NormOps|NormOneOps|NormZeroOps
    norm         norm (max) {dtype_in}         AbsMaxOps
    norm         norm (min) {dtype_in}         AbsMinOps
    argmax       argmax {dtype_in}             ArgMaxOps
    argmin       argmin {dtype_in}             ArgMinOps
    max          max {dtype_in}                MaxOps|MaxNanFunctor
    min          min {dtype_in}                MinOps|MinNanFunctor
    aminmax      aminmax {dtype_in}            MinMaxOps
    all          all ({dtype_in})              and_kernel_cuda
    any          any ({dtype_in})              or_kernel_cuda
    var / std    var/std (Welford) {dtype_in}  WelfordOps
"""
# Ops whose template names the accumulator as its second type.
ACCUMULATED = word_set(
    "sum_functor nansum_functor prod_functor MeanOps NormTwoOps NormOps NormOneOps"
)


def _decode(r: NameParser) -> KernelId | None:
    if not (r.cpp.scope == "at::native" or "ReduceOp<" in r.name):
        return None
    r.put(r.base, "template", r.base, "ATen's reduction template")
    r.read_all(r.cpp.args, "max_threads out_vec")
    args = _cpp.inside(r.name, "ReduceOp")
    dtype = r.read(_cpp.nth(args, 0), "dtype_in", "reads {}", "checked")
    r.put_cut()
    functor = _functor(args)
    row = row_for(OPS, functor)
    if not row:
        return r.done("reduction", "reduce", dtype)
    op, short = row
    r.put(functor, "op", f"aten::{op}", "what is computed along the reduced dimension", "checked")
    r.read(
        _cpp.nth(_cpp.inside(args[1], functor), 1) if functor in ACCUMULATED else "", "dtype_acc"
    )
    r.read(_cpp.nth(args, 3), "dtype_out", "writes {}")
    return r.done("reduction", short)


def _functor(args: tuple[str, ...]) -> str:
    wrapped = _cpp.inside(_cpp.nth(args, 1), "func_wrapper_t")
    return _cpp.leaf(_cpp.nth(wrapped, 1) or _cpp.nth(args, 1))


_STATES = "op dtype_in dtype_acc max_threads out_vec"
FAMILY = family(
    "aten_reduce", _decode, 40, _STATES, "documented", hint="reduce_kernel", base="reduce_kernel"
)
