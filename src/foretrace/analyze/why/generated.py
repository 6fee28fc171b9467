"""Generated code of any language that is understood, and what a call of it moves."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from foretrace.analyze.why import cpp_code, libraries, triton_code
from foretrace.analyze.why.accesses import accesses
from foretrace.analyze.why.cpp_code import CppCode
from foretrace.analyze.why.touches import Touch
from foretrace.analyze.why.triton_code import TritonCode
from foretrace.schema.compiler import Access, GeneratedKernel, NamedTensor

GeneratedCode = TritonCode | CppCode


def generated(kernel: GeneratedKernel) -> GeneratedCode | None:
    """The code of a kernel; None where it is not understood."""
    return _read(kernel.name, kernel.language, kernel.code)


@lru_cache(maxsize=256)  # dynamic sizes are counted anew for every run of a trace
def _read(name: str, language: str, code: str) -> GeneratedCode | None:
    if language == "triton":
        return triton_code.read(code, name)
    return cpp_code.read(code) if language == "cpp" else None


def counted(
    kernel: GeneratedKernel, scalars: Mapping[str, int], tensors: Mapping[str, NamedTensor]
) -> tuple[Access, ...]:
    """The accesses of one call: `scalars` and `tensors` are by parameter."""
    given = tuple(sorted(scalars.items()))
    found = accesses(_touches(kernel.name, kernel.language, kernel.code, given), tensors)
    return libraries.template(found) if _is_matmul(kernel.name) else found


@lru_cache(maxsize=256)  # a model calls the same kernel in every layer
def _touches(
    name: str, language: str, code: str, given: tuple[tuple[str, int], ...]
) -> tuple[Touch, ...]:
    known = _read(name, language, code)
    if isinstance(known, CppCode):
        return tuple(cpp_code.touches(known, dict(given)))
    return () if known is None else tuple(triton_code.touches(known, dict(given)))


def _is_matmul(name: str) -> bool:
    """A template of a matmul: `triton_tem_fused_addmm_0`."""
    return name.startswith("triton_tem_fused") and "mm" in name and "attention" not in name
