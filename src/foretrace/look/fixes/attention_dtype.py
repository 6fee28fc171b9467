"""Attention in bf16 instead of float32.

What it looks for: `scaled_dot_product_attention` on float32 tensors. The fast kernels (Flash,
cuDNN) take 16-bit types only; float32 runs in the memory-efficient kernel or on the math path,
without tensor cores.

What must hold: the op's query is float32 or float64. A card without bf16 matrix units has no
gain.

What changes: the kernels below the call and below its backward node take the time of a 16-bit
fused kernel for the same arithmetic. At worst, the queries, keys, values and the result are
converted in kernels of their own.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from foretrace.base.units import plural
from foretrace.look.fixes._changes import WORST, Changes, NewTimes, Speed, joined, replacing
from foretrace.look.fixes._step import GraphChange, Ints, Proposal, Proposals, Step, fix, shown
from foretrace.work.costs import OpCall

ATTENTION = "aten::scaled_dot_product_attention"
# The kernels of the memory-efficient path; the public op records no shapes in some versions.
INNER = ("aten::_efficient_attention_forward", "aten::_scaled_dot_product_efficient_attention")
WIDE = frozenset({"float", "double"})
WORKING = ("attention", "gemm")
CONVERTED = 1.5  # bytes that a conversion to 16 bit moves for each byte that it reads
BACKWARD = 2.5


@fix("Attention in bf16", "gpu shapes")
def _find(step: Step) -> Proposals:
    wide = wide_attention(step)
    if not len(wide):
        return
    changes = attention_change(step, wide)
    why = f"{plural(len(wide), 'attention', 'attentions')} per step in float32: no tensor cores"
    order = "give scaled_dot_product_attention bf16 (q.bfloat16())"
    risk = "bf16 has 8 bits of precision: compare the loss or the output"
    yield Proposal(order, why, *changes, risk=risk, events=shown(wide))


def wide_attention(step: Step) -> Ints:
    """Calls of attention whose query is float32 or wider, here or in the op that does the work."""

    def is_wide(call: OpCall) -> bool:
        query = call.tensor(0) if "attention" in call.name else None
        return query is not None and len(query.dims) >= 3 and query.type in WIDE

    def calls(event: int) -> list[OpCall]:
        cases = filter(None, map(step.case, step.below([event]).tolist()))
        return [step.call(event), *(case.call for case in cases if case.call)]

    found = step.ops(ATTENTION, *INNER).tolist()
    return np.array([event for event in found if any(map(is_wide, calls(event)))], np.int64)


def attention_change(step: Step, events: Ints, share: float = 1.0) -> Changes:
    """These calls and their nodes in bf16, one kernel for each, with a share of the arithmetic."""
    return replacing([_one(step, event, share) for event in events.tolist()])


def _one(step: Step, event: int, share: float) -> tuple[GraphChange, NewTimes]:
    rows, behind = step.below([event]), step.below(step.backward([event]))
    flops = share * step.total(rows, lambda case: case.flops if case.role in WORKING else 0)
    if not len(rows) or not flops:
        return GraphChange(), {}
    size = CONVERTED * step.total(rows[:1], lambda case: case.bytes)

    def price(part: Ints, back: bool, speed: Speed) -> float:
        """A fused kernel; at worst, with conversions around it."""
        extra = step.memory_ns(speed, size) if speed is WORST else 0.0
        work = step.attention_ns(speed, (BACKWARD if back else 1.0) * flops, back)
        return min(work + extra, step.ns(part))

    parts = [(part, back) for part, back in ((rows, False), (behind, True)) if len(part)]
    times: NewTimes = {int(part[0]): partial(price, part, back) for part, back in parts}
    return joined(step.one_kernel(part, 0.0) for part, _ in parts), times
