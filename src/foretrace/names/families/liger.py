"""Liger-Kernel's Triton functions: Triton 3 prints their names, torch.compile may append `_0`.

A name is a function (`geglu`, `rms_norm`, …) and a direction. `liger_cross_entropy_kernel` writes
the gradient too.
"""

from __future__ import annotations

from foretrace.names.families._parser import KernelId, NameParser, family, row_for, rx

_NAME = (
    r"_?(?P<thing>[a-z][a-z0-9_]{0,78}?)_(?:kernel_(?P<late>forward|backward)"
    r"|(?P<way>forward|backward|fwd|bwd)(?:_(?P<kernel>kernel)|_rows?|_tiled|_fused_2d)"
    r"(?:_[a-z0-9]+)*)"
)


def _decode(r: NameParser) -> KernelId | None:
    plain = rx(r"_\d{1,3}$").sub("", r.name)
    known = _known(plain) if len(r.name) <= 80 else None
    if not known:
        return None
    role, short = known
    r.put(plain, "op", "user triton", "a Triton kernel: the name is the Python function's")
    r.put(plain, "lib", "Liger-Kernel", f"Liger-Kernel defines a function of this name: {short}")
    r.note("", "block size and warps are not in the name: --in TRACE reads them from a launch")
    if plain != r.name:
        r.note(r.name[len(plain) :], "a counter that torch.compile appends")
    return r.done(role, short)


def _known(plain: str) -> tuple[str, ...] | None:
    """The role and the short name of one of Liger's functions."""
    found = rx(_NAME).fullmatch(plain)
    row = row_for("liger", found["thing"]) if found else None
    if not found or not row:
        return row_for("liger_whole", plain)
    role, short = row
    way = "fwd" if (found["late"] or found["way"]).startswith(("forward", "fwd")) else "bwd"
    return role, f"{short} {way}{' (tanh)' if found['thing'] == 'geglu_tanh' else ''}"


FAMILY = family("liger_triton", _decode, 70, "lib op", "documented", hint=r"^\w+$")
