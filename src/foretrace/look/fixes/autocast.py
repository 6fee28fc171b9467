"""Matmuls in bf16 instead of float32 or TF32.

What it looks for: float32 matmuls and convolutions on the tensor cores (TF32). bf16 has twice the
rate, and half of the bytes.

What must hold: the card has a bf16 peak above that of TF32, and TF32 has at least half of the time
of all matmuls. Where float32 runs without TF32, that is the smaller change (`tf32`), and this is
not proposed.

What changes: each float32 matmul, convolution and attention takes the time that it has in bf16. In
a training step, autocast converts inputs and weights around each matmul: their forward ops and
backward nodes take longer on the host, and the conversions take on the GPU what the 16-bit
activations save between the matmuls (measured on a transformer: the same within 4%). Without a
backward pass, the model itself can be bf16: nothing is converted, and the kernels between the
matmuls move half of the bytes.
"""

from __future__ import annotations

from foretrace.base.units import plural
from foretrace.look.fixes._changes import SPEEDS, STARTING_NS, WORST, Changes, Speed, joined
from foretrace.look.fixes._step import Case, GraphChange, Ints, Proposal, Proposals, Step, fix
from foretrace.look.fixes.attention_dtype import attention_change, wide_attention
from foretrace.look.rules._seen import LAYOUT
from foretrace.look.rules.float32_matmuls import is_tf32
from foretrace.work.costs import peak_flops

MATMULS = frozenset({"gemm", "conv"})
MOVING = frozenset({"pointwise", "normalization", "softmax", "reduction", "copy"})
# What autocast leaves of the host time of a matmul: it converts two or three tensors.
LONGER = (1.6, 1.3, 2.0)
LEAST_SHARE = 0.5  # of the time of all matmuls
RISK = "bf16 has 8 bits of precision: compare the loss curve"


@fix("Matmuls in bf16", "gpu shapes")
def _find(step: Step) -> Proposals:
    def works(case: Case) -> bool:
        return case.role in MATMULS and bool(case.flops)

    every = step.rows_where(works)
    rows = step.rows_where(lambda case: works(case) and is_tf32(case))
    narrow, tf32 = (peak_flops(step.device, kind, True) for kind in ("bf16", "tf32"))
    faster = narrow and tf32 and narrow > 1.2 * tf32  # of the bf16 peak over that of TF32
    if not len(rows) or step.ns(rows) < LEAST_SHARE * step.ns(every) or not faster:
        return
    order = 'use torch.autocast("cuda", torch.bfloat16) for the forward'
    why = f"{len(rows)} of {plural(len(every), 'matmul')} per step in float32 (TF32), not in bf16"
    text = order if step.trains else "run the model in bf16 (model.bfloat16())"
    yield Proposal(text, why, *_changes(step, rows), risk=RISK, events=step.events(rows))


def _changes(step: Step, rows: Ints) -> Changes:
    """Matmuls, changes of layout and attention in bf16, and what that costs the host."""
    layout = step.rows_where(lambda case: case.id.get("op") == LAYOUT)

    def price(case: Case, speed: Speed) -> float:
        if case.role == "conv":
            return STARTING_NS + step.arithmetic_ns(speed.conv, case.flops or 0)
        return step.matmul_ns(speed, case.flops or 0, (case.bytes or 0) / 2)

    matmuls = step.repriced(rows, price)
    attention = attention_change(step, wide_attention(step))
    owners = step.owners(rows).tolist() if step.trains else []
    host, halved = GraphChange(step.stretches(owners)), step.shorter(layout, 0.5)

    between = GraphChange() if step.trains else _narrow(step)
    usual, best, worst = (
        joined([GraphChange() if speed is WORST else between, mine, halved, attend, host], left)
        for speed, mine, attend, left in zip(SPEEDS, matmuls, attention, LONGER, strict=True)
    )
    return usual, best, worst


def _narrow(step: Step) -> GraphChange:
    """Half of the time for what moves float32 between the matmuls."""

    def moves(case: Case) -> bool:
        wide = case.call is not None and case.call.operand_type == "float"
        return wide and case.role in MOVING and (case.median_ns or 0) > STARTING_NS

    length = step.trace.gpu.length
    rows = step.rows_where(moves).tolist()
    return GraphChange(length={row: max(length[row] / 2, STARTING_NS) for row in rows})
