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

from collections.abc import Iterator

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._gpu import (
    SPEEDS,
    STARTING_NS,
    WORST,
    Changes,
    Speed,
    arithmetic_ns,
    at_speeds,
    joined,
    matmul_ns,
    owners,
    repriced,
    rows_where,
)
from foretrace.analyze.fixes._step import Step
from foretrace.analyze.fixes.attention_dtype import attention_change, wide_attention
from foretrace.analyze.rules._common import LAYOUT
from foretrace.analyze.rules.float32_matmuls import is_tf32
from foretrace.base.units import plural
from foretrace.model.costs import peak_flops
from foretrace.model.intervals import Ints
from foretrace.model.order import Case
from foretrace.model.replay import GraphChange

MATMULS = frozenset({"gemm", "conv"})
MOVING = frozenset({"pointwise", "normalization", "softmax", "reduction", "copy"})
# What autocast leaves of the host time of a matmul: it converts two or three tensors.
LONGER = (1.6, 1.3, 2.0)
LEAST_GAIN = 1.2  # of the bf16 peak over that of TF32
LEAST_SHARE = 0.5  # of the time of all matmuls
RISK = "bf16 has 8 bits of precision: compare the loss curve"


def _find(step: Step) -> Iterator[Proposal]:
    every = rows_where(step, lambda case: case.role in MATMULS and bool(case.flops))
    rows = rows_where(
        step, lambda case: case.role in MATMULS and bool(case.flops) and is_tf32(case)
    )
    if not len(rows) or step.ns(rows) < LEAST_SHARE * step.ns(every) or not _faster(step):
        return
    trains = bool((step.nodes.is_node[: step.trace.host.count] & step.inside).any())
    order = 'use torch.autocast("cuda", torch.bfloat16) for the forward'
    why = f"{len(rows)} of {plural(len(every), 'matmul')} per step in float32 (TF32), not in bf16"
    changes = _changes(step, rows, trains)
    text = order if trains else "run the model in bf16 (model.bfloat16())"
    yield Proposal(text, why, *changes, risk=RISK, events=step.events(rows))


def _faster(step: Step) -> bool:
    """Whether the card multiplies bf16 faster than TF32."""
    narrow, wide = (peak_flops(step.device, kind, True) for kind in ("bf16", "tf32"))
    return bool(narrow and wide and narrow > LEAST_GAIN * wide)


def _changes(step: Step, rows: Ints, trains: bool) -> Changes:
    """Matmuls, changes of layout and attention in bf16, and what that costs the host."""
    layout = rows_where(step, lambda case: case.id.get("op") == LAYOUT)
    halved = GraphChange(
        length={row: float(step.trace.gpu.length[row]) / 2 for row in layout.tolist()}
    )
    matmuls = repriced(step, rows.tolist(), lambda case, speed: _ns(step, case, speed))
    attention = attention_change(step, wide_attention(step))
    host = GraphChange(removed=step.stretches(owners(step, rows).tolist()) if trains else ())

    def at(speed: Speed) -> GraphChange:
        place = SPEEDS.index(speed)
        between = GraphChange() if trains else _narrow(step, speed)
        return joined([between, matmuls[place], halved, attention[place], host], LONGER[place])

    return at_speeds(at)


def _narrow(step: Step, speed: Speed) -> GraphChange:
    """Half of the time for what moves float32 between the matmuls; at worst, all of it."""
    rows = rows_where(step, _moves_float32) if speed is not WORST else ()
    length = step.trace.gpu.length
    return GraphChange(length={int(row): max(length[row] / 2, STARTING_NS) for row in rows})


def _moves_float32(case: Case) -> bool:
    wide = case.call is not None and case.call.operand_type == "float"
    return wide and case.role in MOVING and (case.median_ns or 0) > STARTING_NS


def _ns(step: Step, case: Case, speed: Speed) -> float | None:
    """The time in bf16; None where the arithmetic is not known."""
    if not case.flops:
        return None
    if case.role == "conv":
        return STARTING_NS + arithmetic_ns(step, speed.conv, case.flops)
    return matmul_ns(step, speed, case.flops, (case.bytes or 0) / 2)


FIX = Fix("autocast", "Matmuls in bf16", _find, ("gpu", "shapes"))
