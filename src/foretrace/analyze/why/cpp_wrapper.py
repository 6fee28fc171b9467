"""Wrappers in C++ (`cpp_wrapper`, AOTInductor): their calls, in order.

Triton kernels are called with their arguments and are counted as elsewhere. Sizes of other buffers
are not followed through C++: what libraries move is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from foretrace.analyze.why.accesses import unsized
from foretrace.analyze.why.comments import HANDLE, ORIGINS, listed
from foretrace.analyze.why.generated import counted, generated
from foretrace.schema.compiler import Access, GeneratedKernel, KernelCall

_CALL = re.compile(r"(?:kernels\.)?call_(\w{1,500})\((.*)\);")
_LIBRARY = re.compile(r".{0,60}?\b(aoti_torch_(?:cuda|cpu|xpu|mps)_\w{1,200})\((.*)\)\);")
_LAUNCHES = "aoti_torch_cuda_", "aoti_torch_cpu_", "aoti_torch_xpu_", "aoti_torch_mps_"
_NUMBER = re.compile(r"(-?\d{1,19})L{0,2}")


def cpp_calls(code: str, kernels: Mapping[str, GeneratedKernel]) -> tuple[KernelCall, ...]:
    """The calls of libraries and of generated kernels in C++ text."""
    found: list[KernelCall] = []
    handle, origins, ops = "", "", ""
    for line in code.splitlines():
        text = line.strip()
        comment = text.removeprefix("//").strip() if text.startswith("//") else ""
        if comment.startswith(HANDLE):
            handle = comment.removeprefix(HANDLE).strip()
        elif comment.startswith(ORIGINS):
            origins, _, ops = comment.removeprefix(ORIGINS).partition("], Original ATen: [")
        elif made := _call(text[:20_000], kernels):
            name, arguments, extern = made
            accesses = () if extern else _accesses(kernels[name], arguments)
            call = KernelCall(name, extern, handle, accesses=accesses, arguments=arguments)
            found.append(replace(call, origins=listed(origins), ops=listed(ops)))
            handle, origins, ops = "", "", ""
    return tuple(found)


def _call(
    text: str, kernels: Mapping[str, GeneratedKernel]
) -> tuple[str, tuple[str, ...], bool] | None:
    """(name, arguments, whether a library's) of a line that calls a kernel."""
    own = _CALL.fullmatch(text)
    if own and own[1] in kernels:
        return own[1], _arguments(own[2]), False
    library = _LIBRARY.fullmatch(text) if any(each in text for each in _LAUNCHES) else None
    return (library[1], _arguments(library[2]), True) if library else None


def _arguments(text: str) -> tuple[str, ...]:
    parts = [part.strip() for part in text.split(",")]
    return tuple(number[1] if (number := _NUMBER.fullmatch(part)) else part for part in parts)


def _accesses(kernel: GeneratedKernel, arguments: tuple[str, ...]) -> tuple[Access, ...]:
    code = generated(kernel)
    if code is None:
        return ()
    pairs = list(zip(code.parameters, arguments, strict=False))
    scalars = {name: int(text) for name, text in pairs if text.lstrip("-").isdecimal()}
    tensors = {
        name: unsized(text, code.pointers[name]) for name, text in pairs if name in code.pointers
    }
    return counted(kernel, scalars, tensors)
