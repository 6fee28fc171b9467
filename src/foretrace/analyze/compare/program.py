"""Whether two traces show one program: how much of the work of one has a counterpart in the other.

A kernel corresponds where its name, its op with the shapes, or a matmul's FLOPs agree with those
of its partner, or where one side fused it. Ops correspond by name and number of calls. An eager and
a compiled program share few ops and most kernels; one program at two sizes or on two GPUs shares
its ops.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from foretrace.analyze.compare.align import MATMULS
from foretrace.analyze.compare.fusion import spent
from foretrace.analyze.compare.kernels import KernelTable
from foretrace.analyze.compare.launched import Kernel
from foretrace.analyze.compare.ops import OpCalls
from foretrace.base.units import percent_text

# Recorded pairs of one program on an H200 share 94% or more of the GPU time of one side, or 71% of
# their ops; an H100's and an MI300X's share 99%. Unrelated pairs share at most 42% and 39%.
ENOUGH = 0.5


class Likeness(Struct, frozen=True):
    """Shares of the GPU time of A and of B, and of the op calls, that have a counterpart."""

    a: float
    b: float
    ops: float

    @property
    def one_program(self) -> bool:
        """Whether anything but totals can be compared."""
        return max(self.a, self.b, self.ops) >= ENOUGH

    @property
    def text(self) -> str:
        """What shows that there are two programs."""
        gpu = f"{percent_text(self.a)} of the GPU time of A and {percent_text(self.b)} of that of B"
        return (
            f"only {gpu} have a counterpart in the other, and {percent_text(self.ops)} of the ops"
        )


def likeness(
    table: KernelTable, ops_a: Mapping[str, OpCalls], ops_b: Mapping[str, OpCalls]
) -> Likeness | None:
    """How much corresponds; None where a side has no GPU work to judge by."""
    pairs = [row for row in table.changed if row.a and row.b and _corresponds(row.a, row.b)]
    fused = [part for part in table.parts if part.fusion is not None or part.undone is not None]
    shares = []
    for side, lone in (("a", table.removed), ("b", table.added)):
        total, known = (
            sum(getattr(row, f"spent_{side}") or 0 for row in rows)
            for rows in ((*table.same, *table.changed, *lone), (*table.same, *pairs))
        )
        known += sum(spent(getattr(part, side)) or 0 for part in fused)
        shares.append(min(known / total, 1.0) if total else None)
    a, b = shares
    return None if a is None or b is None else Likeness(a, b, _shared(ops_a, ops_b))


def _corresponds(a: Kernel, b: Kernel) -> bool:
    same_call = a.op == b.op and a.shapes is not None and a.shapes == b.shapes
    same_matmul = bool(a.flops) and a.flops == b.flops and a.role == b.role in MATMULS
    return a.name == b.name or same_call or same_matmul


def _shared(a: Mapping[str, OpCalls], b: Mapping[str, OpCalls]) -> float:
    calls = [sum(op.calls for op in side.values()) for side in (a, b)]
    both = sum(min(op.calls, b[name].calls) for name, op in a.items() if name in b)
    return both / max(calls) if any(calls) else 0.0
