"""Sizes of matmuls that are multiples of 8.

What it looks for: matmuls on tensor cores whose kernel loads 1, 2 or 4 elements at a time, and the
odd size that causes it: a vocabulary of 50257, a width of 1021.

What must hold: the name of the kernel states its alignment, and the shapes have a size along memory
that is no multiple of 16 bytes (the detection of the rule `misaligned_matmuls`).

What changes: the matmuls take the time of their arithmetic at the usual share of the card's peak,
or of their bytes. All other work stays as it is; a padded vocabulary has a little more of it.
"""

from __future__ import annotations

from foretrace.base.units import plural
from foretrace.look.fixes._changes import Speed
from foretrace.look.fixes._step import Case, Proposal, Proposals, Step, fix
from foretrace.look.rules.misaligned_matmuls import misaligned, odd_sizes

KINDS = {"f16": "fp16", "bf16": "bf16", "f32": "tf32", "tf32": "tf32", "i8": "int8"}
WIDE, NARROW = 64, 8  # what a size is padded to: 64 is safe where it adds little


@fix("Sizes that are multiples of 8", "gpu shapes")
def _find(step: Step) -> Proposals:
    rows = step.rows_where(lambda case: misaligned(case) and bool(odd_sizes(case)))
    spent: dict[int, float] = {}
    for row in rows.tolist():
        case = step.case(row)
        for size in odd_sizes(case).values() if case else ():
            spent[size] = spent.get(size, 0.0) + step.ns([row])
    if not spent:
        return
    size = max(spent, key=lambda size: (spent[size], size))
    unit = WIDE if -size % WIDE < 0.05 * size else NARROW
    order = f"pad {size} to {-(-size // unit) * unit}, a multiple of {unit}"
    why = f"{plural(len(rows), 'matmul')} per step with narrow loads: {size} is not a multiple of 8"

    def price(case: Case, speed: Speed) -> float | None:
        kind = KINDS.get(str(case.id.get("dtype_in")))
        if not case.flops or not kind:
            return None
        return step.matmul_ns(speed, case.flops, case.bytes or 0, kind)

    yield Proposal(order, why, *step.repriced(rows, price), events=step.events(rows))
