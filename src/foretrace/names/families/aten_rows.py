"""ATen's layer, RMS, group and batch norm kernels.

`vectorized_layer_norm_kernel<T, acc, true>` is RMS norm: the last flag tells, where there is one.
The older form without the flag is always layer norm. `RowwiseMomentsCUDAKernel<T>` is group norm;
with two types it was layer norm.

ATen's softmax: a warp per row up to 1024 elements, a block per row above.

Names:

    softmax_warp_(forward|backward)<Tin, Tout, acc, log2_elements, is_log_softmax, is_masked>
    cunn_SoftMax(Forward|Backward)[Smem|Reg|…]<[vector width,] Tin, acc, Tout, Epilogue, …>

ATen's reductions: `reduce_kernel<max_threads, out_vec, ReduceOp<Tin, Op, index, Tout, …>>`.
"""

from __future__ import annotations

from foretrace.names.families import _cpp
from foretrace.names.families._parser import KernelId, NameParser, family, row_for, rx, word_set


def _norm(r: NameParser) -> KernelId | None:
    row = r.row("aten_norm") if rx(r"at::native(?!::xpu)").match(r.cpp.scope) else None
    if not row:
        return None
    op, short = row
    r.put(r.base, "template", r.base, "ATen's kernel for this norm")
    types = [text for text in r.cpp.args if _cpp.dtype(text) not in (None, "bool")]
    dtype = r.read(_cpp.nth(types, 0), "dtype_in", "reads {}")
    rms = _cpp.boolean(r.arg(2)) if "layer_norm" in r.base else None
    r.put(r.arg(2), "rms_norm", rms, "RMS norm | layer norm", "checked")
    if rms:
        op = op.replace("native_layer_norm", "_fused_rms_norm")
        short = short.replace("layer_norm", "rms_norm")
    if r.base == "RowwiseMomentsCUDAKernel" and len(types) > 1:
        op, short = "", "norm moments"
    r.put(r.base, "op", op and f"aten::{op}", certainty="checked")
    return r.done("normalization", short, dtype)


_SOFTMAX = r"softmax_warp_(forward|backward)|cunn_(Spatial)?SoftMax(Forward|Backward)\w*"


def _softmax(r: NameParser) -> KernelId:
    warp = bool(r[1])
    words = "warp per row, up to 1024 elements" if warp else "block per row"
    r.put(r.base, "template", r.base, f"softmax with one {words}")
    log = (_warp if warp else _block)(r)
    backward = "ackward" in r.base
    if log is not None:
        op = f"aten::_{'log_' * log}softmax{'_backward_data' * backward}"
        r.put(r.base, "op", op, certainty="checked")
    word = f"{'log_' if log else ''}softmax {'bwd' if backward else 'fwd'}"
    way = "warp" if warp else "spatial" if r[2] else "block"
    return r.done("softmax", f"{word} {{dtype_in}} ({way})")


def _warp(r: NameParser) -> bool | None:
    _types(r, r.cpp.args, "dtype_in dtype_out dtype_acc")
    size = _cpp.integer(r.arg(3))
    if size is not None and size < 64:
        r.put(r.arg(3), "log2_elements", size, f"rows of up to {2**size} elements", "checked")
    log = _cpp.boolean(r.arg(4))
    r.put(r.arg(4), "log_softmax", log, certainty="checked")
    r.put(r.arg(5), "masked", _cpp.boolean(r.arg(5)))
    return log


def _block(r: NameParser) -> bool | None:
    vec = r.read(r.arg(0), "vec")
    _types(r, r.cpp.args if vec == "" else r.cpp.args[1:], "dtype_in dtype_acc dtype_out")
    leaves = (_cpp.leaf(text) for text in r.cpp.args)
    epilogue = next((leaf for leaf in leaves if leaf.endswith("Epilogue")), "")
    log = epilogue.startswith("Log")
    r.put(epilogue, "epilogue", epilogue, "log_softmax" if log else "softmax")
    return log if epilogue else None


def _types(r: NameParser, args: tuple[str, ...], fields: str) -> None:
    meanings = {"dtype_in": "reads {}", "dtype_out": "writes {}", "dtype_acc": "sums in {}"}
    for text, field in zip(args, fields.split(), strict=False):
        r.read(text, field, meanings[field])


# Ops whose template names the accumulator as its second type.
ACCUMULATED = word_set(
    "sum_functor nansum_functor prod_functor MeanOps NormTwoOps NormOps NormOneOps"
)


def _reduce(r: NameParser) -> KernelId | None:
    if not (r.cpp.scope == "at::native" or "ReduceOp<" in r.name):
        return None
    r.put(r.base, "template", r.base, "ATen's reduction template")
    r.read_all(r.cpp.args, "max_threads out_vec")
    args = _cpp.inside(r.name, "ReduceOp")
    dtype = r.read(_cpp.nth(args, 0), "dtype_in", "reads {}", "checked")
    r.put_cut()
    wrapped = _cpp.inside(_cpp.nth(args, 1), "func_wrapper_t")
    functor = _cpp.leaf(_cpp.nth(wrapped, 1) or _cpp.nth(args, 1))
    row = row_for("aten_reduce", functor)
    if not row:
        return r.done("reduction", "reduce", dtype)
    op, short = row
    r.put(functor, "op", f"aten::{op}", "what is computed along the reduced dimension", "checked")
    if functor in ACCUMULATED:
        r.read(_cpp.nth(_cpp.inside(args[1], functor), 1), "dtype_acc")
    r.read(_cpp.nth(args, 3), "dtype_out", "writes {}")
    return r.done("reduction", short)


_NORM = r"orm|Rowwise|GammaBeta|ComputeFusedParams|Compute\w{0,60}Backward|ComputeInternal"
_HINT, _ROW = "oftmax|SoftMax", "op dtype_in log2_elements log_softmax masked vec"
_REDUCE, _STATES = "reduce_kernel", "op dtype_in dtype_acc max_threads out_vec"
FAMILIES = (
    family("aten_norm", _norm, 40, "op rms_norm dtype_in", "documented", hint=_NORM),
    family("aten_softmax", _softmax, 40, _ROW, "documented", hint=_HINT, base=_SOFTMAX),
    family("aten_reduce", _reduce, 40, _STATES, "documented", hint=_REDUCE, base=_REDUCE),
)
