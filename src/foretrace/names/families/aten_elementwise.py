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

from typing import NamedTuple

from foretrace.names.families import _cpp, _words
from foretrace.names.families._parser import KernelId, NameParser, family, row_for, word_set

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


def _decode(r: NameParser) -> KernelId | None:
    if r.base not in TEMPLATES or (r.base == "elementwise_kernel" and not r.cpp.args):
        return None
    r.put(r.base, "template", r.base, "ATen's element-wise template")
    _memory(r)
    functor = _functor(r.cpp)
    r.put_cut()
    if not functor:
        return r.done("pointwise", "elementwise")
    return (_copy if row_for("aten_copies", functor.leaf) else _op)(r, functor)


def _memory(r: NameParser) -> None:
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
    if found := _words.lambda_dtype(functor.text):
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
            _paired_types(r, inner)
        elif found := _words.lambda_dtype(functor.text):
            r.put(found[1], "dtype", found[0])
        elif inner:
            r.read(inner[0], "dtype")
    op, short = row_for("aten_functors", functor.name) or ("", "")
    word = _words.op_word(functor.name.partition("<")[2].rstrip(">") or functor.leaf)
    if functor.leaf == "FillFunctor" and r.get("dtype") == "f32":
        op = "aten::fill_ / zero_"  # zero_ of float gradients is where this one was seen
    if op or (_words.is_op(word) and functor.text.startswith("at::native")):
        r.put(functor.leaf, "op", op or f"aten::{word}", certainty="checked")
    short = short or word + (" (scalar)" if "UnaryFunctor" in functor.leaf else "")
    strided = "(strided/broadcast)" if r.get("contiguous") is False else ""
    return r.done("pointwise", short, strided)


def _paired_types(r: NameParser, inner: tuple[str, ...]) -> None:
    left, right, result = (_cpp.dtype(text) for text in inner[:3])
    if left == right:
        r.put(inner[0], "dtype", left)
    if result != left:
        r.put(inner[2], "dtype_out", result, "writes {}")
    math = _cpp.dtype(next(iter(_cpp.inside(inner[3], _cpp.leaf(inner[3]))), ""))
    if math != left:
        r.put(inner[3], "math_dtype", math, "computes in {}")


_STATES = "op dtype vec contiguous cast src_dtype dst_dtype"
FAMILY = family("aten_elementwise", _decode, 40, _STATES, "documented", hint="elementwise_kernel")
