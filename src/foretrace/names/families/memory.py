"""Memcpys and memsets: `Memcpy <kind> (<from> -> <to>)`, `Memset (<kind>)`, ROCm's helpers.

A copy from or to Pageable memory is staged through a pinned buffer and usually blocks the host.
PtoP is between GPUs. ROCm prints Host where CUDA tells Pinned from Pageable.
"""

from __future__ import annotations

from foretrace.names.families._parser import NameParser, rx, word_set
from foretrace.schema.kernel import Family, KernelId

KINDS = {
    "HtoD": "host to device",
    "DtoH": "device to host",
    "DtoD": "within the device",
    "PtoP": "between GPUs",
    "HtoH": "within the host",
    "HtoA": "host to array",
    "AtoH": "array to host",
    "AtoA": "array to array",
    "AtoD": "array to device",
    "DtoA": "device to array",
}
MEMORY = {
    "Pageable": "ordinary host memory: the copy is staged and usually blocks the host",
    "Pinned": "page-locked host memory",
}
ROCM = {
    "__amd_rocclr_copyBuffer": ("memcpy", "copy made by a kernel"),
    "__amd_rocclr_fillBuffer": ("memset", "fill made by a kernel"),
    "__amd_rocclr_fillBufferAligned": ("memset", "fill made by a kernel"),
}


def _decode(name: str) -> KernelId | None:
    if name in ROCM:
        return _rocm(name, *ROCM[name])
    copied = rx(
        r"Memcpy (?P<kind>[A-Z]to[A-Z])(?: \((?P<src>[\w ]+?) -> (?P<dst>[\w ]+?)\))?"
    ).fullmatch(name)
    if copied:
        return _copy(name, copied["kind"], copied["src"] or "", copied["dst"] or "")
    filled = rx(r"Memset(?: \(([\w ]+)\))?").fullmatch(name)
    if not filled:
        return None
    r = NameParser(name, "memcpy_memset", "documented")
    r.put("Memset", "op", "memset", "fills memory with a byte")
    r.put(filled[1], "kind", filled[1], "the memory filled")
    return r.done("copy", name)


def _copy(name: str, kind: str, source: str, target: str) -> KernelId:
    r = NameParser(name, "memcpy_memset", "documented")
    r.put("Memcpy", "op", "memcpy", "copies memory")
    r.put(kind, "kind", kind, KINDS.get(kind, "unknown direction"))
    for field, text, side in (("src", source, "from"), ("dst", target, "to")):
        r.put(text, field, text, f"{side} {MEMORY.get(text, text.lower() + ' memory')}")
    return r.done("copy", name)


def _rocm(name: str, op: str, meaning: str) -> KernelId:
    r = NameParser(name, "memcpy_memset", "documented")
    r.put(name, "op", op, f"ROCm: a {meaning}")
    return r.done("copy", f"{op} (ROCm kernel)")


FAMILY = Family("memcpy_memset", _decode, 9, word_set("op kind src dst"))
