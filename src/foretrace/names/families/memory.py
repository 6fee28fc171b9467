"""Memcpys and memsets: `Memcpy <kind> (<from> -> <to>)`, `Memset (<kind>)`, ROCm's helpers.

A copy from or to Pageable memory is staged through a pinned buffer and usually blocks the host.
PtoP is between GPUs. ROCm prints Host where CUDA tells Pinned from Pageable.
"""

from __future__ import annotations

from foretrace.names.families._parser import KernelId, NameParser, family, row_for

MEMORY = {
    "Pageable": "ordinary host memory: the copy is staged and usually blocks the host",
    "Pinned": "page-locked host memory",
}
_NAME = (
    r"^(?:(?P<rocm>__amd_rocclr_\w+)|Memset(?: \((?P<filled>[\w ]+)\))?"
    r"|Memcpy (?P<kind>[A-Z]to[A-Z])(?: \((?P<src>[\w ]+?) -> (?P<dst>[\w ]+?)\))?)$"
)


def _decode(r: NameParser) -> KernelId | None:
    if r["rocm"]:
        op, meaning = row_for("rocm_memory", r.name) or ("", "")
        r.put(r.name, "op", op, f"ROCm: a {meaning}")
        return r.done("copy", f"{op} (ROCm kernel)") if op else None
    if not r["kind"]:
        r.put("Memset", "op", "memset", "fills memory with a byte")
        r.put(r["filled"], "kind", r["filled"], "the memory filled")
        return r.done("copy", r.name)
    r.put("Memcpy", "op", "memcpy", "copies memory")
    known = row_for("memcpy", r["kind"])
    r.put(r["kind"], "kind", r["kind"], known[0] if known else "unknown direction")
    for field, side in (("src", "from"), ("dst", "to")):
        memory = MEMORY.get(r[field], f"{r[field].lower()} memory")
        r.put(r[field], field, r[field], f"{side} {memory}")
    return r.done("copy", r.name)


FAMILY = family("memcpy_memset", _decode, 9, "op kind src dst", "documented", hint=_NAME)
