"""Intel GPUs: ATen's SYCL templates, known from names quoted in public code."""

from __future__ import annotations

from foretrace.names.families import _cpp, _words
from foretrace.names.families._parser import NameParser, joined, rx, word_set
from foretrace.schema.kernel import Family, KernelId


def _decode(name: str) -> KernelId | None:
    if name == "gemm_kernel":
        r = NameParser(name, "xpu")
        r.put(name, "op", "gemm", "oneDNN's matmul; the name tells no more")
        return r.done("gemm", "oneDNN GEMM")
    if "at::native::xpu::" not in name[:200]:
        return None
    cpp = _cpp.parse(name)
    r = NameParser(name, "xpu")
    r.put(cpp.base, "template", cpp.base, "ATen's SYCL kernel")
    vec = _cpp.integer(cpp.arg(0))
    functors = (text for text in cpp.args if _cpp.integer(text) is None and "::" in text)
    functor = _cpp.leaf(next(functors, ""))
    if vec is not None and cpp.base == "VectorizedElementwiseKernel":
        r.put(cpp.arg(0), "vec", vec, "{} elements per load")
    if functor:
        r.put(functor, "functor", functor, "the function applied")
        r.put(functor, "op", f"aten::{_words.op_word(functor)}", "the op that launches it")
    dtype = _cpp.dtype((_cpp.inside(name, functor) or ("",))[0]) if functor else None
    r.put(functor, "dtype", dtype, "works on {}")
    elementwise = "Elementwise" in cpp.base and rx(r"\w+").fullmatch(cpp.base)
    role = "reduction" if cpp.base.startswith("Reduce") else _words.role(cpp.base)
    word = _words.op_word(functor) if functor else _words.plain(cpp.base)
    return r.done("pointwise" if elementwise else role, joined(word, dtype))


FAMILY = Family("xpu", _decode, 32, word_set("vec op dtype"))
