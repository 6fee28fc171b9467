"""Generated code of any language that is understood, and what a call of it moves."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from msgspec.structs import replace

from foretrace.model.compiled import cpp_code, triton_code
from foretrace.model.compiled.accesses import (
    Touch,
    accesses,
    again,
    template,
)
from foretrace.model.compiled.cpp_code import CppCode
from foretrace.model.compiled.syntax import evaluate
from foretrace.model.compiled.triton_code import TritonCode
from foretrace.schema.compiler import Access, GeneratedKernel, KernelCall, NamedTensor, Size

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
    return template(found) if _is_matmul(kernel.name) else found


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


def sized(
    call: KernelCall, kernels: Mapping[str, GeneratedKernel], symbols: Mapping[str, int]
) -> KernelCall:
    """The call with these sizes in what it moves; itself where that needs none."""
    if call.bytes is not None or not symbols:
        return call
    return replace(call, accesses=resolved(call, kernels, symbols))


def resolved(
    call: KernelCall, kernels: Mapping[str, GeneratedKernel], symbols: Mapping[str, int]
) -> tuple[Access, ...]:
    """The accesses of a call with numbers in the place of symbols."""
    tensors = [_sized(access.tensor, symbols) for access in call.accesses]
    if call.extern:
        return again(call.kernel, tensors, [access.mode for access in call.accesses])
    kernel = kernels.get(call.kernel)
    code = generated(kernel) if kernel else None
    if kernel is None or code is None:
        return call.accesses
    held = {a.argument: t for a, t in zip(call.accesses, tensors, strict=True)}
    values = {
        name: value
        for name, text in zip(code.parameters, call.arguments, strict=False)
        if name not in code.pointers and (value := evaluate(text, symbols)) is not None
    }
    return counted(kernel, values, held)


def _sized(tensor: NamedTensor, symbols: Mapping[str, int]) -> NamedTensor:
    def known(sizes: tuple[Size, ...]) -> tuple[Size, ...]:
        values = ((size, evaluate(size, symbols)) for size in sizes)
        return tuple(size if value is None else value for size, value in values)

    return replace(tensor, shape=known(tensor.shape), stride=known(tensor.stride))
