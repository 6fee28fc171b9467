"""The rate of a kernel at each level beside its roof, from what was counted.

Where the operations of the tensor cores were not counted, those that the shapes state stand in.
"""

from __future__ import annotations

from typing import Any

from foretrace.model.costs.roofline import type_key
from foretrace.model.counters.traffic import LevelTraffic
from foretrace.model.roofs import dtype_of
from foretrace.names.families import decode
from foretrace.schema.documents.counters import KnownRoof, ReachedRoof

# The types whose matrix units have a peak of their own.
_ON_MATRIX_UNITS = {"fp32": "tf32", "fp64": "fp64_matrix"}


def reached_roofs(
    moved: LevelTraffic, operations: dict[str, float], ns: float | None, roofs: list[KnownRoof]
) -> list[ReachedRoof]:
    """One entry for each level that was counted."""
    if not ns:
        return []
    amounts = {"hbm": moved.hbm, "l2": moved.l2, "shared": moved.shared or None}
    amounts |= {f"tensor {_unit(kind)}": count for kind, count in operations.items()}
    known = {roof.level: roof.per_second for roof in roofs}
    found = []
    for level, amount in amounts.items():
        if amount is not None:
            rate, roof = amount / ns * 1e9, known.get(level)
            found.append(ReachedRoof(level, rate, roof, rate / roof if roof else None))
    return found


def stated_operations(name: str, row: dict[str, Any]) -> dict[str, float]:
    """The operations of a matmul from its shapes, where its name says that tensor cores ran."""
    kernel = decode(name)
    dtype = dtype_of(row, kernel) if row else None
    if not dtype or not row["flops"] or kernel.get("tensor_core") is not True:
        return {}
    return {_unit(type_key(dtype)): float(row["flops"])}


def _unit(kind: str) -> str:
    return _ON_MATRIX_UNITS.get(kind, kind)
