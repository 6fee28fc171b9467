"""Device-wide primitives: CUB (PyTorch's copy is `at_cuda_detail::cub`), rocPRIM, Thrust."""

from __future__ import annotations

from functools import partial

from foretrace.names.families import _cpp
from foretrace.names.families._parser import KernelId, NameParser, family, rows, rx

_STEP = (
    r"Device(?:Segmented)?(?:RadixSort|MergeSort|ScanByKey|Scan|ReduceByKey|Reduce|UniqueByKey|Select)"
    r"(?!ByKey)(\w+?)Kernel"
)


def _decode(r: NameParser) -> KernelId | None:
    if not rx(r"(?:^|::)(?:hip)?cub(?:::|$)").search(r.cpp.scope):
        return None
    r.put("cub", "template", "cub", "a primitive of CUB")
    row = r.row("cub")
    if not row:
        return r.done("other", "cub", r.base.removesuffix("Kernel"))
    role, op, short = row
    r.put(r.base, "op", f"cub {op}", "what the primitive does")
    if step := rx(_STEP).fullmatch(r.base):
        r.put(step[1], "step", step[1].lower(), "the step of the primitive: {}")
    return r.done(role, short, _types(r.cpp))


def _types(cpp: _cpp.Cpp) -> str | None:
    """Key and value types of a sort, element type of a scan, in words."""
    if cpp.base.startswith("DeviceRadixSort"):
        policy = _cpp.inside(cpp.arg(0), "DeviceRadixSortPolicy")
        key, value = (_cpp.dtype(text) for text in policy[:2]) if len(policy) > 2 else (None, None)
        return f"({key} keys, {value} values)" if key and value else ""
    if cpp.base.startswith("DeviceScanKernel"):
        return _cpp.dtype(next((text for text in cpp.args if text.endswith("*")), ""))
    return ""


def _primitive(library: str, r: NameParser) -> KernelId:
    """rocPRIM and Thrust have one entry function: the template's arguments are searched too."""
    r.put(library, "template", library, "a device-wide primitive")
    text = f"{r.base} {r.arg(0)} {r.arg(2)[:200]}"
    role, word = next((row for row in rows("primitives") if row[1] in text), ("other", ""))
    short = f"{library} {word.replace('_', ' ')}".strip()
    r.put(word, "op", word and short, "what the primitive does", "inferred")
    return r.done(role, short)


FAMILIES = (
    family("cub", _decode, 33, "op template step", "documented", hint=r"\b(?:hip)?cub::"),
    *(
        family(lib, partial(_primitive, lib), 33, "op", "documented", hint=rf"^(?:void )?{lib}::")
        for lib in ("rocprim", "thrust")
    ),
)
