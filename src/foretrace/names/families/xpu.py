"""Intel GPUs: ATen's SYCL templates, known from names quoted in public code."""

from __future__ import annotations

from foretrace.names.families import _cpp, _words
from foretrace.names.families._parser import KernelId, NameParser, family, rx


def _decode(r: NameParser) -> KernelId:
    if r.name == "gemm_kernel":
        r.put(r.name, "op", "gemm", "oneDNN's matmul; the name tells no more")
        return r.done("gemm", "oneDNN GEMM")
    r.put(r.base, "template", r.base, "ATen's SYCL kernel")
    functors = (text for text in r.cpp.args if _cpp.integer(text) is None and "::" in text)
    functor = _cpp.leaf(next(functors, ""))
    if r.base == "VectorizedElementwiseKernel":
        r.read(r.arg(0), "vec")
    word = _words.op_word(functor) if functor else _words.plain(r.base)
    r.read(functor, "functor")
    r.put(functor, "op", functor and f"aten::{word}")
    dtype = _cpp.dtype((_cpp.inside(r.name, functor) or ("",))[0]) if functor else None
    r.put(functor, "dtype", dtype)
    elementwise = "Elementwise" in r.base and rx(r"\w+").fullmatch(r.base)
    role = "reduction" if r.base.startswith("Reduce") else _words.role(r.base)
    return r.done("pointwise" if elementwise else role, "", word, dtype)


FAMILY = family("xpu", _decode, 32, "vec op dtype", hint="at::native::xpu::|^gemm_kernel$")
