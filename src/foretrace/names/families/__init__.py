"""Kernel names, decoded: one file per family of names, found by `plugins`; adding one touches no
other.

`decode` is total: any string gives a `KernelId`, whatever its length; a name that no family knows
is `unknown` with role `other`. A field that a name does not state is absent. Each distinct name is
decoded once.

A family returns None for a name that is not its own. Families are tried in `order`, low first:
exact prefixes (8 to 16), library templates (18 to 42), everything of ATen (40 to 49), literal names
(50 to 70), plain identifiers (90).
"""

from __future__ import annotations

import sys
from functools import cache, lru_cache

from msgspec.structs import replace

from foretrace.base import plugins
from foretrace.names.families._aten import MATMULS, VIEWS, VOCABULARY, role_of_op
from foretrace.names.families._difference import changed, own_ops, told_apart, value_text
from foretrace.names.families._matmul import on_card
from foretrace.schema.kernel import NAME_LIMIT, Family, KernelId, Part

__all__ = [
    "MATMULS",
    "VIEWS",
    "VOCABULARY",
    "changed",
    "decode",
    "every",
    "on_card",
    "own_ops",
    "role_for",
    "role_of_op",
    "told_apart",
    "value_text",
]


@cache
def every() -> tuple[Family, ...]:
    """All families in the order they are tried: those of this package, then entry points."""
    here = sys.modules[__name__]
    found = plugins.declared(here, "FAMILY", Family, "foretrace.families")
    for module in plugins.modules(here):
        found += getattr(module, "FAMILIES", ())
    return tuple(sorted(found, key=lambda family: (family.order, family.name)))


@lru_cache(maxsize=1 << 18)
def decode(name: str) -> KernelId:
    """What a kernel's name says. Never raises: a family that fails on a name does not know it."""
    # ROCm's tools append `.kd` to the symbol of every kernel
    symbol = name[:NAME_LIMIT].removesuffix(".kd")
    for family in every():
        try:
            found = family.decode(symbol)
        except Exception:  # noqa: BLE001 - a family from elsewhere must not cost the reader a trace
            continue
        if found is not None:
            return found if symbol == name else replace(found, name=name)
    short = name if len(name) <= 48 else name[:47] + "…"
    unknown = Part(name, "", "no family knows this name", "unknown")
    return KernelId(name, short, "unknown", "other", {}, (unknown,))


def role_for(name: str, op_name: str | None) -> str:
    """The role of a kernel by its name, else by the op that launched it."""
    role = decode(name).role
    return role_of_op(op_name) if role == "other" and op_name else role
