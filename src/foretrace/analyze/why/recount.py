"""The bytes of a call whose sizes became known only when it ran."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from foretrace.analyze.why import libraries
from foretrace.analyze.why.generated import counted, generated
from foretrace.analyze.why.symbols import evaluate
from foretrace.schema.compiler import Access, GeneratedKernel, KernelCall, NamedTensor, Size


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
        return libraries.again(call.kernel, tensors, [access.mode for access in call.accesses])
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
