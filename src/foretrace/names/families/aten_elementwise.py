"""ATen's element-wise templates. The template tells how memory is walked, the functor tells the op.

- `vectorized_elementwise_kernel<V, F, …>`: all tensors contiguous, no cast; V elements at a time
- `unrolled_elementwise_kernel<F, …, LoadWithCast, …>`: contiguous; a cast if the loaders say so
- `elementwise_kernel<128, n, gpu_kernel_impl_nocast<F>…>`: strided or broadcast, no cast
- `elementwise_kernel<128, 4, gpu_kernel_impl<F>…>`: strided, with a cast; older PyTorch used it for
  both

`direct_copy_kernel_cuda` prints the destination's type. With a cast, the source's type is not in
the name.
"""

from __future__ import annotations

from msgspec import Struct

from foretrace.names.families import _cpp, _words
from foretrace.names.families._parser import NameParser, word_set
from foretrace.names.families._words import is_op
from foretrace.schema.kernel import Family, KernelId

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
# functor -> (source, destination); `lambda` is the lambda's type; which fp8 the name does not tell
COPIES = {
    "direct_copy_kernel_cuda": ("", ""),
    "bfloat16_copy_kernel_cuda": ("lambda", "bf16"),
    "float16_copy_kernel_cuda": ("lambda", "f16"),
    "float8_copy_kernel_cuda": ("lambda", ""),
    "bfloat16tofloat32_copy_kernel_cuda": ("lambda", "f32"),
    "float16tofloat32_copy_kernel_cuda": ("lambda", "f32"),
}
_DIVIDED = "aten::div by a Python scalar (computed as multiply by reciprocal)"
_THRESHOLD = "aten::threshold_backward"
# functor -> (op, short); {} takes the data type
SPECIAL = {
    "CUDAFunctor_add": ("aten::add", "add {}"),
    "CUDAFunctorOnSelf_add": ("aten::add / aten::add_ / aten::sub with a scalar", "add scalar"),
    "CUDAFunctorOnOther_add": ("aten::sub / rsub", "add/sub scalar (scalar first)"),
    "BinaryFunctor<MulFunctor>": ("aten::mul", "mul {}"),
    "AUnaryFunctor<MulFunctor>": ("aten::mul", "mul by scalar {}"),
    "BUnaryFunctor<MulFunctor>": (_DIVIDED, "mul by scalar"),
    "BinaryFunctor<threshold_kernel_impl>": (_THRESHOLD, "threshold backward (relu)"),
    "launch_clamp_scalar": ("aten::clamp_min_ (how aten::relu_ runs)", "clamp (relu in eager)"),
    "masked_fill_kernel": ("aten::masked_fill_", "masked_fill"),
    "FillFunctor": ("aten::fill_", "fill {}"),
    "batch_norm_update_stats_and_invert": ("", "batch_norm stats update"),
}


class Functor(Struct, frozen=True):
    """The functor of a kernel: its text, its plain name, its name with the op that it wraps."""

    text: str
    leaf: str
    name: str


def _decode(name: str) -> KernelId | None:
    if "elementwise_kernel" not in name[:160]:
        return None
    cpp = _cpp.parse(name)
    if cpp.base not in TEMPLATES or (cpp.base == "elementwise_kernel" and not cpp.args):
        return None
    r = NameParser(name, "aten_elementwise", "documented")
    r.put(cpp.base, "template", cpp.base, "ATen's element-wise template")
    _memory(r, cpp)
    functor = _functor(cpp)
    if cpp.truncated:
        r.put("", "truncated", True, "a bracket does not close: the name was cut", "checked")
    if not functor:
        return r.done("pointwise", "elementwise")
    if functor.leaf in COPIES:
        return _copy(r, functor)
    return _op(r, cpp, functor)


def _memory(r: NameParser, cpp: _cpp.Cpp) -> None:
    vec = _cpp.integer(cpp.arg(0))
    if cpp.base.startswith("vectorized"):
        r.put(cpp.base, "contiguous", True, "all tensors are contiguous")
        r.put(cpp.base, "cast", False, "no type change")
        if vec:
            r.put(cpp.arg(0), "vec", vec, "{} elements per load")
    elif cpp.base == "unrolled_elementwise_kernel":
        r.put(cpp.base, "contiguous", True, "all tensors are contiguous")
        for word in LOADERS.keys() & {_cpp.leaf(text) for text in cpp.args}:
            r.put(word, "cast", *LOADERS[word])
    elif cpp.base in ("elementwise_kernel", "elementwise_kernel_manual_unroll"):
        _strided(r, cpp, vec)


def _strided(r: NameParser, cpp: _cpp.Cpp, threads: int | None) -> None:
    r.put(cpp.base, "contiguous", False, "some operand is strided or broadcast")
    each = _cpp.integer(cpp.arg(1))
    if threads and each:
        r.put(cpp.arg(0), "threads", threads, "{} threads per block")
        r.put(cpp.arg(1), "per_thread", each, "{} elements per thread")
    if "gpu_kernel_impl_nocast" in cpp.arg(2):
        r.put("gpu_kernel_impl_nocast", "cast", False, "no type change")
    # with 2 per thread it is an older PyTorch, which used the template for both
    elif "gpu_kernel_impl<" in cpp.arg(2) and each != 2:
        r.put("gpu_kernel_impl", "cast", True, "some operand has another type")


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
    inner = _cpp.inside(text, leaf) if leaf in PAIRED else ()
    if cpp.truncated and leaf == "FillFunctor" and not _cpp.inside(text, leaf):
        return None
    wrapped = _cpp.leaf(inner[3]) if len(inner) > 3 else ""
    if wrapped:
        return Functor(text, leaf, f"{leaf}<{wrapped}>")
    return None if leaf in PAIRED else Functor(text, leaf, leaf)


def _copy(r: NameParser, functor: Functor) -> KernelId:
    cast, strided = r.fields.get("cast"), r.fields.get("contiguous") is False
    r.put(functor.leaf, "functor", functor.leaf, "copies elements")
    source, target = COPIES[functor.leaf]
    found = _words.lambda_dtype(functor.text)
    if found:
        dtype, written = found
        source = dtype if source or cast is False else ""
        target = target or (dtype if functor.leaf.startswith("direct") else "")
        r.put(written, "src_dtype", source, "reads {}", "checked")
        r.put(written, "dst_dtype", target, "writes {}", "checked")
    same = strided and cast is False and functor.leaf.startswith("direct")
    op = "aten::copy_ / contiguous / clone" if same else "aten::copy_"
    meaning = "a copy made by a kernel; a cast or a change of layout"
    r.put(functor.leaf, "op", op, meaning, "checked")
    return r.done("copy", _copy_short(r, strided))


def _copy_short(r: NameParser, strided: bool) -> str:
    source, target = r.fields.get("src_dtype", ""), r.fields.get("dst_dtype", "")
    if source and source == target:
        return f"copy {target}{' (strided, same dtype)' if strided else ''}"
    if not (source or target):
        return "copy"
    target = target or "fp8"  # the one copy that tells its source alone
    kinds = ["strided"] * strided + ["cast"] * (r.fields.get("cast") is True and not source)
    return f"copy {source}->{target}" + (f" ({', '.join(kinds)})" if kinds else "")


def _op(r: NameParser, cpp: _cpp.Cpp, functor: Functor) -> KernelId:
    r.put(functor.leaf, "functor", functor.name, "the function applied to each element")
    if cpp.base != "elementwise_kernel_with_index":  # there the lambda takes an index, not a value
        _types(r, functor)
    op, short = SPECIAL.get(functor.name, ("", ""))
    word = _words.op_word(functor.name.partition("<")[2].rstrip(">") or functor.leaf)
    if functor.leaf == "FillFunctor" and r.fields.get("dtype") == "f32":
        op = "aten::fill_ / zero_"  # zero_ of float gradients is where this one was seen
    if op or (is_op(word) and functor.text.startswith("at::native")):
        r.put(functor.leaf, "op", op or f"aten::{word}", "the op that launches it", "checked")
    dtype = r.fields.get("dtype", "")
    scalar = " (scalar)" if "UnaryFunctor" in functor.leaf else ""
    short = short.format(dtype) if short else word + scalar
    if r.fields.get("contiguous") is False:
        short += " (strided/broadcast)"
    return r.done("pointwise", short)


def _types(r: NameParser, functor: Functor) -> None:
    inner = _cpp.inside(functor.text, functor.leaf)
    if functor.leaf in PAIRED and len(inner) > 3:
        _paired_types(r, inner)
    elif found := _words.lambda_dtype(functor.text):
        r.put(found[1], "dtype", found[0], "works on {}")
    elif inner and (dtype := _cpp.dtype(inner[0])):
        r.put(inner[0], "dtype", dtype, "works on {}")


def _paired_types(r: NameParser, inner: tuple[str, ...]) -> None:
    left, right, result = (_cpp.dtype(text) for text in inner[:3])
    if left and left == right:
        r.put(inner[0], "dtype", left, "works on {}")
    if result and result != left:
        r.put(inner[2], "dtype_out", result, "writes {}")
    math = _cpp.dtype(next(iter(_cpp.inside(inner[3], _cpp.leaf(inner[3]))), ""))
    if math and math != left:
        r.put(inner[3], "math_dtype", math, "computes in {}")


FAMILY = Family(
    "aten_elementwise", _decode, 40, word_set("op dtype vec contiguous cast src_dtype dst_dtype")
)
