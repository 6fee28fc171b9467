"""Kernel names, decoded: one file per library, found by `plugins`; adding a family touches no
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
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from types import ModuleType
from typing import Any

from msgspec.structs import replace

from foretrace.base import plugins
from foretrace.work.families._cpp import on_card, rows
from foretrace.work.families._parser import (
    MATMULS,
    SHORT_LIMIT,
    VIEWS,
    is_op,
    role_of_op,
    vocabulary,
)
from foretrace.work.kernel import NAME_LIMIT, Family, FieldChange, KernelId, Part

__all__ = [
    "MATMULS",
    "VIEWS",
    "changed",
    "decode",
    "every",
    "is_op",
    "of",
    "on_card",
    "own_ops",
    "role_for",
    "role_of_op",
    "told_apart",
    "value_text",
    "vocabulary",
]
_FREE_TEXT = ("ops", "elsewhere", "tokens", "truncated", "arg_spec", "class", "mangled")


@cache
def every() -> tuple[Family, ...]:
    """All families in the order they are tried: those of this package, then entry points."""
    here = [family for module in plugins.modules(sys.modules[__name__]) for family in of(module)]
    brought = plugins.entries(Family, "foretrace.families")
    return tuple(sorted([*here, *brought], key=lambda family: (family.order, family.name)))


def of(module: ModuleType) -> list[Family]:
    """The families that a module declares."""
    values = [*vars(module).values(), *getattr(module, "FAMILIES", ())]
    return [value for value in values if isinstance(value, Family)]


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


def own_ops(kernel: KernelId) -> list[str]:
    """Origin ops that the kernel itself may compute: without those whose work is elsewhere."""
    away = kernel.get("elsewhere") or ()
    return [op for op in kernel.get("ops") or () if op not in away]


def changed(a: KernelId, b: KernelId) -> tuple[FieldChange, ...]:
    """What differs from A to B: family, role, then every field; None where a name states none."""
    heads = (("family", a.family, b.family), ("role", a.role, b.role))
    fields = ((field, a.get(field), b.get(field)) for field in {**a.fields, **b.fields})
    return tuple(FieldChange(*row) for row in (*heads, *fields) if row[1] != row[2])


def told_apart(names: Iterable[KernelId]) -> dict[str, KernelId]:
    """The kernels by name. Those that share a short name get a field in it that differs, if any."""
    kernels = {kernel.name: kernel for kernel in names}
    groups: defaultdict[str, list[KernelId]] = defaultdict(list)
    for kernel in kernels.values():
        groups[kernel.short].append(kernel)
    for group in groups.values():
        if len(group) > 1:
            kernels |= {kernel.name: kernel for kernel in _apart(group)}
    return kernels


def value_text(value: Any) -> str:
    """A field's value for people: `2x4`, `bias+gelu`, `yes`."""
    if isinstance(value, list | tuple):
        return ("x" if all(isinstance(item, int) for item in value) else "+").join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _apart(group: list[KernelId]) -> list[KernelId]:
    fields = _telling(group)
    found = []
    for kernel in group:
        more = " ".join(filter(None, (_written(kernel, field) for field in fields)))
        room = SHORT_LIMIT - len(more) - 1
        base = kernel.short if len(kernel.short) <= room else kernel.short[: room - 1] + "…"
        found.append(replace(kernel, short=f"{base} {more}") if 0 < len(more) < 32 else kernel)
    return found


def _telling(group: Sequence[KernelId]) -> list[str]:
    """The fields that together tell most of the kernels apart; one, if one tells all of them."""
    known = {field for kernel in group for field in kernel.fields if field not in _FREE_TEXT}
    place = {field: place for place, field in enumerate(_patterns())}
    ranked = sorted(known, key=lambda field: (place.get(field, len(place)), field))
    counts = {field: _kinds(group, [field]) for field in ranked}
    alone = [field for field in ranked if counts[field] == len(group)]
    if alone:
        return alone[:1]
    chosen: list[str] = []
    for field in ranked:
        if counts[field] > 1 and _kinds(group, [*chosen, field]) > _kinds(group, chosen):
            chosen.append(field)
    return chosen[:3]  # fields behind one short name: more would not fit a column


def _kinds(group: Sequence[KernelId], fields: list[str]) -> int:
    return len({tuple(_written(kernel, field) for field in fields) for kernel in group})


@cache
def _patterns() -> dict[str, str]:
    """How fields are written behind a short name, the most telling first."""
    return {row[0]: row[1] for row in rows("telling")}


def _written(kernel: KernelId, field: str) -> str:
    value = kernel.get(field)
    if value is None or value is False:
        return ""
    pattern = _patterns().get(field, field.replace("_", " ") + ("" if value is True else " {}"))
    return pattern.replace("{}", value_text(value))
