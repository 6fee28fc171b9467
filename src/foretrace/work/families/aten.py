"""ATen's kernels: element-wise, indexing, multi-tensor, rows and norms, random numbers, more."""

from __future__ import annotations

from typing import NamedTuple

from foretrace.work.families import _cpp
from foretrace.work.families._cpp import row_for, rows, rx, word_set
from foretrace.work.families._parser import (
    NameParser,
    family,
    is_op,
    lambda_dtype,
    op_word,
    plain_kernel,
    role_by_words,
)
from foretrace.work.kernel import KernelId

# ATen's element-wise templates. The template tells how memory is walked, the functor tells the op.
#
# - `vectorized_elementwise_kernel<V, F, …>`: all tensors contiguous, no cast; V elements at a time
# - `unrolled_elementwise_kernel<F, …, LoadWithCast, …>`: contiguous; a cast if the loaders say so
# - `elementwise_kernel<128, n, gpu_kernel_impl_nocast<F>…>`: strided or broadcast, no cast
# - `elementwise_kernel<128, 4, gpu_kernel_impl<F>…>`: strided, with a cast; older PyTorch: both
#
# `direct_copy_kernel_cuda` prints the destination's type. With a cast, the source's type is not in
# the name.

TEMPLATES = word_set("""
    vectorized_elementwise_kernel unrolled_elementwise_kernel elementwise_kernel
    elementwise_kernel_manual_unroll elementwise_kernel_with_index
    unrolled_elementwise_kernel_for_multi_outputs vectorized_templated_elementwise_kernel
""")
LOADERS = {
    "LoadWithCast": (True, "some operand has another type"),
    "LoadWithoutCast": (False, "no type change; the pointers are not aligned enough for vectors"),
}
PAIRED = ("BinaryFunctor", "AUnaryFunctor", "BUnaryFunctor")


class Functor(NamedTuple):
    """The functor of a kernel: its text, its plain name, its name with the op that it wraps."""

    text: str
    leaf: str
    name: str


@family(
    "aten_elementwise",
    40,
    "op dtype vec contiguous cast src_dtype dst_dtype",
    "documented",
    hint="elementwise_kernel",
)
def _decode_elementwise(r: NameParser) -> KernelId | None:
    if r.base not in TEMPLATES or (r.base == "elementwise_kernel" and not r.cpp.args):
        return None
    r.put(r.base, "template", r.base, "ATen's element-wise template")
    contiguous = "all tensors are contiguous | some operand is strided or broadcast"
    if r.base.startswith("vectorized"):
        r.put(r.base, "contiguous", True, contiguous)
        r.put(r.base, "cast", False, "no type change")
        r.put(r.arg(0), "vec", _cpp.integer(r.arg(0)) or None)
    elif r.base == "unrolled_elementwise_kernel":
        r.put(r.base, "contiguous", True, contiguous)
        for word in LOADERS.keys() & {_cpp.leaf(text) for text in r.cpp.args}:
            r.put(word, "cast", *LOADERS[word])
    elif r.base in ("elementwise_kernel", "elementwise_kernel_manual_unroll"):
        r.put(r.base, "contiguous", False, contiguous)
        threads, each = (_cpp.integer(r.arg(place)) for place in (0, 1))
        if threads and each:
            r.read_all(r.cpp.args, "threads per_thread")
        if "gpu_kernel_impl_nocast" in r.arg(2):
            r.put("gpu_kernel_impl_nocast", "cast", False, "no type change")
        # with 2 per thread it is an older PyTorch, which used the template for both
        elif "gpu_kernel_impl<" in r.arg(2) and each != 2:
            r.put("gpu_kernel_impl", "cast", True, "some operand has another type")
    functor = _functor(r.cpp)
    r.put_cut()
    if not functor:
        return r.done("pointwise", "elementwise")
    return (_copy if row_for("aten_copies", functor.leaf) else _op)(r, functor)


def _functor(cpp: _cpp.Cpp) -> Functor | None:
    functors = (arg for arg in cpp.args if _cpp.integer(arg) is None and arg not in _cpp.TYPES)
    text = next(functors, "")
    for wrapper in ("gpu_kernel_impl_nocast", "gpu_kernel_impl"):
        if f"{wrapper}<" in text:
            text = next(iter(_cpp.inside(text, wrapper)), "")
    leaf = _cpp.leaf(text)
    # the rest of the name was cut
    if not leaf or (cpp.truncated and text == cpp.args[-1] and text.endswith(leaf)):
        return None
    inner = _cpp.inside(text, leaf)
    if cpp.truncated and leaf == "FillFunctor" and not inner:
        return None
    if leaf not in PAIRED:
        return Functor(text, leaf, leaf)
    wrapped = _cpp.leaf(_cpp.nth(inner, 3))
    return Functor(text, leaf, f"{leaf}<{wrapped}>") if wrapped else None


def _copy(r: NameParser, functor: Functor) -> KernelId:
    cast, strided = r.fields.get("cast"), r.fields.get("contiguous") is False
    direct = functor.leaf.startswith("direct")
    r.put(functor.leaf, "functor", functor.leaf, "copies elements")
    source, target = row_for("aten_copies", functor.leaf) or ("", "")
    if found := lambda_dtype(functor.text):
        dtype, written = found
        source = dtype if source or cast is False else ""
        target = target or (dtype if direct else "")
        r.put(written, "src_dtype", source, "reads {}", "checked")
        r.put(written, "dst_dtype", target, "writes {}", "checked")
    op = (
        "aten::copy_ / contiguous / clone"
        if strided and cast is False and direct
        else "aten::copy_"
    )
    meaning = "a copy made by a kernel; a cast or a change of layout"
    r.put(functor.leaf, "op", op, meaning, "checked")
    return r.done("copy", _copy_short(r, strided))


def _copy_short(r: NameParser, strided: bool) -> str:
    source, target = r.get("src_dtype"), r.get("dst_dtype")
    if source and source == target:
        return f"copy {target}{' (strided, same dtype)' if strided else ''}"
    if not (source or target):
        return "copy"
    target = target or "fp8"  # the one copy that tells its source alone
    kinds = ["strided"] * strided + ["cast"] * (r.get("cast") is True and not source)
    return f"copy {source}->{target}" + (f" ({', '.join(kinds)})" if kinds else "")


def _op(r: NameParser, functor: Functor) -> KernelId:
    r.put(functor.leaf, "functor", functor.name, "the function applied to each element")
    if r.base != "elementwise_kernel_with_index":  # there the lambda takes an index, not a value
        inner = _cpp.inside(functor.text, functor.leaf)
        if functor.leaf in PAIRED and len(inner) > 3:
            left, right, result = (_cpp.dtype(text) for text in inner[:3])
            if left == right:
                r.put(inner[0], "dtype", left)
            if result != left:
                r.put(inner[2], "dtype_out", result, "writes {}")
            math = _cpp.dtype(next(iter(_cpp.inside(inner[3], _cpp.leaf(inner[3]))), ""))
            if math != left:
                r.put(inner[3], "math_dtype", math, "computes in {}")
        elif found := lambda_dtype(functor.text):
            r.put(found[1], "dtype", found[0])
        elif inner:
            r.read(inner[0], "dtype")
    op, short = row_for("aten_functors", functor.name) or ("", "")
    word = op_word(functor.name.partition("<")[2].rstrip(">") or functor.leaf)
    if functor.leaf == "FillFunctor" and r.get("dtype") == "f32":
        op = "aten::fill_ / zero_"  # zero_ of float gradients is where this one was seen
    if op or (is_op(word) and functor.text.startswith("at::native")):
        r.put(functor.leaf, "op", op or f"aten::{word}", certainty="checked")
    short = short or word + (" (scalar)" if "UnaryFunctor" in functor.leaf else "")
    strided = "(strided/broadcast)" if r.get("contiguous") is False else ""
    return r.done("pointwise", short, strided)


# ATen's cat, index, gather and scatter. `OpaqueType<2>` states bytes instead of a type.


@family(
    "aten_index_cat",
    41,
    "op element_bytes dims dtype batch",
    "documented",
    hint=r"CatArray|index|scatter|gather|embedding_backward|flip_cuda|roll_cuda",
)
def _decode_index(r: NameParser) -> KernelId | None:
    if r.base.startswith("CatArrayBatchedCopy"):
        _put_op_index(r, "aten::cat")
        value, dims = _put_value(r, r.arg(0)), _cpp.integer(r.arg(2))
        r.read_all(r.cpp.args, "- - dims batch")
        words = f"cat ({value}, {dims}D)" if "byte" in value else f"cat {value} {dims}D"
        return r.done("copy", words if value and dims else "cat")
    if r.base in ("indexSelectSmallIndex", "indexSelectLargeIndex"):
        _put_op_index(r, "aten::index_select")
        value = _put_value(r, r.arg(0))
        r.read(r.arg(1), "index_dtype")
        return r.done("scatter_gather", "index_select", value, "(embedding)")
    if r.base == "index_elementwise_kernel":
        known = (row for row in rows("aten_indexed") if f"{row[2]}<" in r.arg(2))
        op, short, inner = next(known, ("", "index (", ""))
        _put_op_index(r, op)
        value = _put_value(r, next(iter(_cpp.inside(r.arg(2), inner)), "")) if inner else ""
        joint = ", " if short.endswith("gather") else ""
        return r.done("scatter_gather", f"{short}{joint}{value})" if value else short.split(" ")[0])
    if r.base == "_scatter_gather_elementwise_kernel":
        return _scatter(r)
    row = r.row("aten_index")
    if not row:
        return None
    role, op, short = row
    _put_op_index(r, op)
    return r.done(role, short, "" if "gather" in short else _put_value(r, r.arg(0)))


def _put_value(r: NameParser, text: str) -> str:
    """The element: a type, or its bytes where the type was erased. Returns it in words."""
    size = rx(r"(?:[\w:]*::)?OpaqueType<(?:\(\w+\))?(\d{1,3})\w*>").fullmatch(text)
    if not size:
        dtype: str = r.read(text, "dtype", "elements of {}", "checked")
        return dtype
    r.put(
        text, "element_bytes", int(size[1]), "elements of {} bytes; the type is erased", "checked"
    )
    return f"{size[1]}-byte dtype"


def _put_op_index(r: NameParser, op: str) -> None:
    r.put(r.base, "template", r.base, "ATen's kernel for this kind of addressing")
    r.put(r.base, "op", op, certainty="checked")


def _scatter(r: NameParser) -> KernelId:
    args = _cpp.inside(r.arg(2), "_cuda_scatter_gather_internal_kernel")
    scatter = _cpp.boolean(_cpp.nth(args, 0))
    added = "ReduceAdd" in r.arg(2)
    op = "aten::gather" if scatter is False else "aten::scatter_add" if added else "aten::scatter"
    if r.cpp.truncated or scatter is None:
        _put_op_index(r, "")
        return r.done("scatter_gather", "scatter/gather")
    _put_op_index(r, op)
    value = _put_value(r, _cpp.nth(args, 1))
    return r.done("scatter_gather", op[6:], f"({value})" if "byte" in value else value)


# ATen's multi-tensor kernels: `_foreach_*` ops and fused optimizers.
#
#     multi_tensor_apply_kernel<TensorListMetadata<lists>, Functor<T, depth, inputs, result>,
#         Op<…>, …>
#
# The role is `optimizer` for arithmetic (in practice optimizers launch these), `copy` for copies,
# `reduction` for norms. A result index of 0 is the in-place form (`_foreach_mul_`).

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


@family("aten_multi_tensor", 40, "op lists dtype", "documented", hint=TEMPLATE)
def _decode_multi_tensor(r: NameParser) -> KernelId | None:
    if _cpp.is_mangled(r.name):
        words = _cpp.identifiers(r.name)
        if words[:2] != ("at", "native"):
            return None
        r.put(TEMPLATE, "template", TEMPLATE, "one launch for many tensors")
        r.put("_Z", "mangled", True)
        metadata = next((word for word in words if word.endswith("Metadata")), "")
        counts = _cpp.numbers_after(r.name, metadata) if metadata else []
        r.put(metadata, "lists", counts[-1] if counts else None)
        functor = next((word for word in words if word.endswith("Functor")), "")
        r.put(functor, "functor", functor, _APPLIED)
        dtype = _cpp.type_after(r.name, functor) if functor else ""
        if functor in FUSED:
            return _fused(r, functor, dtype, "ADAM_MODEE1E" in r.name)
        return r.done("optimizer", "foreach", dtype)
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


_APPLIED = "the function applied to the lists"


# ATen's layer, RMS, group and batch norm kernels.
#
# `vectorized_layer_norm_kernel<T, acc, true>` is RMS norm: the last flag tells, where there is one.
# The older form without the flag is always layer norm. `RowwiseMomentsCUDAKernel<T>` is group norm;
# with two types it was layer norm.
#
# ATen's softmax: a warp per row up to 1024 elements, a block per row above.
#
# Names:
#
#     softmax_warp_(forward|backward)<Tin, Tout, acc, log2_elements, is_log_softmax, is_masked>
#     cunn_SoftMax(Forward|Backward)[Smem|Reg|…]<[vector width,] Tin, acc, Tout, Epilogue, …>
#
# ATen's reductions: `reduce_kernel<max_threads, out_vec, ReduceOp<Tin, Op, index, Tout, …>>`.


@family(
    "aten_norm",
    40,
    "op rms_norm dtype_in",
    "documented",
    hint=r"orm|Rowwise|GammaBeta|ComputeFusedParams|Compute\w{0,60}Backward|ComputeInternal",
)
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


@family(
    "aten_softmax",
    40,
    "op dtype_in log2_elements log_softmax masked vec",
    "documented",
    hint="oftmax|SoftMax",
    base=r"softmax_warp_(forward|backward)|cunn_(Spatial)?SoftMax(Forward|Backward)\w*",
)
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


_REDUCE = "reduce_kernel"


@family(
    "aten_reduce",
    40,
    "op dtype_in dtype_acc max_threads out_vec",
    "documented",
    hint=_REDUCE,
    base=_REDUCE,
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


# ATen's random numbers: fills (`normal_`, `uniform_`, …) and dropout.

OPS = {
    "random_from_to": "random",
    "random_full_64_bits_range": "random",
    "bernoulli_tensor": "bernoulli",
}


@family(
    "aten_random",
    40,
    "op distribution dtype vec",
    "checked",
    hint="distribution_|dropout_kernel|andperm|ultinomial|renormRows",
)
def _decode_random(r: NameParser) -> KernelId | None:
    if not r.cpp.scope.startswith("at::native"):
        return None
    if r.base.startswith("distribution_elementwise_grid_stride_kernel"):
        transform = rx(r"(?<!\w)(\w+)_and_transform<").search(r.name)
        inner = rx(r"(?<!\w)(\w+?)(?:_cuda)?_kernel<at::CUDAGeneratorImpl").search(r.name)
        word = inner[1] if inner else transform[1] if transform else ""
        word = OPS.get(word, word)
        _put_op_random(r, f"aten::{word}_" if word else "")
        if transform:
            r.put(transform[1], "distribution", transform[1], "the distribution drawn from")
        types = _cpp.inside(r.name, f"{transform[1]}_and_transform") if transform else ()
        r.read(_cpp.nth(types, 0), "dtype", "writes {}")
        return r.done("random", f"{word}_ {{dtype}}" if word else "random fill")
    if r.base.startswith("fused_dropout_kernel"):
        _put_op_random(r, "aten::native_dropout")
        r.read(r.arg(0), "dtype", certainty="documented")
        if r.base.endswith("_vec"):
            r.read(r.arg(4), "vec", certainty="inferred")
        return r.done("random", "dropout {dtype}")
    row = r.row("aten_random")
    if not row:
        return None
    op, short = row
    _put_op_random(r, op)
    return r.done("random", short)


def _put_op_random(r: NameParser, op: str) -> None:
    r.put(r.base, "template", r.base, "ATen's kernel for random numbers", "documented")
    r.put(r.base, "op", op)


# The rest of ATen: pooling, losses, sorting, scans, embedding gradients, resampling.
#
# The function's name is the op. A kernel of `at::native` that no table knows keeps its function
# name; its role comes from the words of that name.

UNSCOPED = "compute_cuda_kernel"


@family("aten_other", 49, "op dtype", "documented", hint=f"_ZN2at6native|at::native|{UNSCOPED}")
def _decode_other(r: NameParser) -> KernelId | None:
    if "_ZN2at6native" in r.name[:20]:
        words = _cpp.identifiers(r.name)
        if words[:2] != ("at", "native") or len(words) < 3:
            return None
        r.put("_Z", "mangled", True)
        r.put(words[2], "template", words[2])
        role = "pointwise" if "elementwise" in words[2] else role_by_words(words[2])
        return r.done(role, "", plain_kernel(words[2]), *words[3:4])
    if not r.cpp.scope.startswith("at::native") and r.base != UNSCOPED:
        return None
    r.put(r.base, "template", r.base)
    # a bool among several types is a mask
    types = [r.arg(0)] if r.arg(0) == "bool" else [t for t in r.cpp.args if t != "bool"]
    dtype = r.read(next(filter(_cpp.dtype, types), ""), "dtype")
    row = r.row("aten_other")
    if not row:
        return r.done(role_by_words(r.base), "", plain_kernel(r.base), dtype)
    role, short, op = row
    op = op or _upsample(r.base) or _triangle(r.cpp)
    r.put(r.base, "op", op and f"aten::{op}", certainty="inferred")
    return r.done(role, short.replace("triu/tril", op or "triu/tril"))


def _triangle(cpp: _cpp.Cpp) -> str:
    """`triu_tril_kernel<T, index, upper, …>`."""
    upper = _cpp.boolean(cpp.arg(2)) if cpp.base == "triu_tril_kernel" else None
    return "" if upper is None else "triu" if upper else "tril"


def _upsample(function: str) -> str:
    found = rx(r"(upsample_[a-z]+\dd)(_backward)?\w*").fullmatch(function)
    return f"{found[1]}{found[2] or ''}" if found else ""


# Intel GPUs: ATen's SYCL templates, known from names quoted in public code.


@family("xpu", 32, "vec op dtype", hint="at::native::xpu::|^gemm_kernel$")
def _decode_xpu(r: NameParser) -> KernelId:
    if r.name == "gemm_kernel":
        r.put(r.name, "op", "gemm", "oneDNN's matmul; the name tells no more")
        return r.done("gemm", "oneDNN GEMM")
    r.put(r.base, "template", r.base, "ATen's SYCL kernel")
    functors = (text for text in r.cpp.args if _cpp.integer(text) is None and "::" in text)
    functor = _cpp.leaf(next(functors, ""))
    if r.base == "VectorizedElementwiseKernel":
        r.read(r.arg(0), "vec")
    word = op_word(functor) if functor else plain_kernel(r.base)
    r.read(functor, "functor")
    r.put(functor, "op", functor and f"aten::{word}")
    dtype = _cpp.dtype((_cpp.inside(r.name, functor) or ("",))[0]) if functor else None
    r.put(functor, "dtype", dtype)
    elementwise = "Elementwise" in r.base and rx(r"\w+").fullmatch(r.base)
    role = "reduction" if r.base.startswith("Reduce") else role_by_words(r.base)
    return r.done("pointwise" if elementwise else role, "", word, dtype)
