"""Host ops, by name: which are called less, more or as often in a typical repeat, and what they
cost the host.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from foretrace.comparison.side import Side
from foretrace.schema import compiled


@dataclass(frozen=True, slots=True)
class OpRow:
    """Calls per unit, host time per unit that no callee accounts for, and time of the kernels it
    launched itself.
    """

    name: str
    a: int
    b: int
    a_ns: float
    b_ns: float
    a_gpu_ns: float
    b_gpu_ns: float

    @property
    def by_compiler(self) -> bool:
        return compiled.is_row(self.name)


@dataclass(frozen=True, slots=True)
class OpTable:
    """Each op is in one of the three: called less often in B, more often, or as often."""

    removed: tuple[OpRow, ...]
    added: tuple[OpRow, ...]
    same: tuple[OpRow, ...]


def compare_ops(a: Side, b: Side) -> OpTable:
    """Count the ops of two typical repeats, the largest difference first."""
    gpu = [_gpu_time(side) for side in (a, b)]
    rows = [
        OpRow(
            name,
            a.ops.get(name, 0),
            b.ops.get(name, 0),
            a.op_ns.get(name, 0),
            b.op_ns.get(name, 0),
            gpu[0][name],
            gpu[1][name],
        )
        for name in sorted({*a.ops, *b.ops})
    ]
    rows.sort(key=lambda row: -abs(row.a - row.b))
    return OpTable(
        tuple(row for row in rows if row.a > row.b),
        tuple(row for row in rows if row.a < row.b),
        tuple(row for row in rows if row.a == row.b),
    )


def _gpu_time(side: Side) -> Counter[str]:
    """Per op the medians of its kernels, summed."""
    spent: Counter[str] = Counter()
    for kernel in side.kernels:
        if kernel.op is not None:
            spent[compiled.label(kernel.op)] += kernel.ns.median or 0  # type: ignore[assignment]
    return spent
