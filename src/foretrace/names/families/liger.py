"""Liger-Kernel's Triton functions: Triton 3 prints their names, torch.compile may append `_0`.

A name is a function (`geglu`, `rms_norm`, …) and a direction. `liger_cross_entropy_kernel` writes
the gradient too.
"""

from __future__ import annotations

from functools import cache

from foretrace.names.families._parser import KernelId, NameParser, by_role, family, rx

_NAME = (
    r"_?(?P<thing>[a-z][a-z0-9_]{0,78}?)_(?:kernel_(?P<late>forward|backward)"
    r"|(?P<way>forward|backward|fwd|bwd)(?:_(?P<kernel>kernel)|_rows?|_tiled|_fused_2d)"
    r"(?:_[a-z0-9]+)*)"
)
_NEIGHBOURHOOD = r"_(?:fused|dense|sparse)_neighborhood_(?:attention_)?\w+_kernel"


def _decode(r: NameParser) -> KernelId | None:
    plain = rx(r"_\d{1,3}$").sub("", r.name)
    known = _known(plain) if len(r.name) <= 80 else None
    if not known:
        return None
    short, role = known
    r.put(plain, "op", "user triton", "a Triton kernel: the name is the Python function's")
    r.put(plain, "lib", "Liger-Kernel", f"Liger-Kernel defines a function of this name: {short}")
    r.note("", "block size and warps are not in the name: --in TRACE reads them from a launch")
    if plain != r.name:
        r.note(r.name[len(plain) :], "a counter that torch.compile appends")
    return r.done(role, short)


def _known(plain: str) -> tuple[str, str] | None:
    """The short name and role of one of Liger's functions."""
    if whole := _functions("liger_whole").get(plain):
        return whole
    if rx(_NEIGHBOURHOOD).fullmatch(plain):
        return "neighborhood attention", "attention"
    found = rx(_NAME).fullmatch(plain)
    if not found or found["thing"] not in _functions("liger"):
        return None
    short, role = _functions("liger")[found["thing"]]
    way = "fwd" if (found["late"] or found["way"]).startswith(("forward", "fwd")) else "bwd"
    return f"{short} {way}{' (tanh)' if found['thing'] == 'geglu_tanh' else ''}", role


@cache
def _functions(table: str) -> dict[str, tuple[str, str]]:
    """Function -> (short name, role)."""
    entries = ((role, entry.split(" = ")) for role, found in by_role(table, ";") for entry in found)
    return {words[0].strip(): (words[-1].strip(), role) for role, words in entries}


FAMILY = family("liger_triton", _decode, 70, "lib op", "documented", hint=r"^\w+$")
