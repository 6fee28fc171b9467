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

from collections.abc import Iterator
from functools import partial

import numpy as np

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._gpu import (
    WORST,
    Changes,
    NewKernel,
    Speed,
    at_speeds,
    attention_ns,
    joined,
    memory_ns,
    one_kernel,
    total,
    with_kernels,
)
from foretrace.analyze.fixes._step import Step
from foretrace.base.units import plural
from foretrace.model.costs import OpCall
from foretrace.model.intervals import Ints
from foretrace.model.replay import GraphChange

ATTENTION = "aten::scaled_dot_product_attention"
# The kernels of the memory-efficient path; the public op records no shapes in some versions.
INNER = ("aten::_efficient_attention_forward", "aten::_scaled_dot_product_efficient_attention")
WIDE = frozenset({"float", "double"})
WORKING = ("attention", "gemm")
CONVERTED = 1.5  # bytes that a conversion to 16 bit moves for each byte that it reads
BACKWARD = 2.5


def _find(step: Step) -> Iterator[Proposal]:
    wide = wide_attention(step)
    if not len(wide):
        return
    changes = attention_change(step, wide)
    why = f"{plural(len(wide), 'attention', 'attentions')} per step in float32: no tensor cores"
    order = "give scaled_dot_product_attention bf16 (q.bfloat16())"
    risk = "bf16 has 8 bits of precision: compare the loss or the output"
    yield Proposal(order, why, *changes, risk=risk, events=tuple(wide[:50].tolist()))


def wide_attention(step: Step) -> Ints:
    """Calls of attention on float32 or float64."""
    calls = step.ops(ATTENTION, *INNER).tolist()
    return np.array([call for call in calls if _is_wide(step, call)], np.int64)


def _is_wide(step: Step, event: int) -> bool:
    """Whether the query is float32 or wider, here or in the op that does the work."""
    inner = [case.call for row in step.below([event]).tolist() if (case := step.case(row))]
    calls = [step.call(event), *inner]
    return any(_query_type(call) in WIDE for call in calls)


def _query_type(call: OpCall | None) -> str:
    query = call.tensor(0) if call and "attention" in call.name else None
    return query.type if query and len(query.dims) >= 3 else ""


def attention_change(step: Step, events: Ints, share: float = 1.0) -> Changes:
    """These calls and their backward nodes in bf16, with a share of their arithmetic; each keeps
    its host time and has one kernel.
    """
    pairs = [_one(step, event, share) for event in events.tolist()]
    base = joined(change for change, _ in pairs)
    kernels = [kernel for _, each in pairs for kernel in each]
    return at_speeds(lambda speed: with_kernels(base, kernels, speed))


def _one(step: Step, event: int, share: float) -> tuple[GraphChange, list[NewKernel]]:
    rows, behind = step.below([event]), step.below(step.backward([event]))
    flops = share * total(step, rows, lambda case: case.flops if case.role in WORKING else 0)
    if not len(rows) or not flops:
        return GraphChange(), []
    size = CONVERTED * total(step, rows[:1], lambda case: case.bytes)
    parts = [(part, back) for part, back in ((rows, False), (behind, True)) if len(part)]
    kernels = [
        NewKernel(int(part[0]), step.ns(part), partial(_ns, step, flops, size, back))
        for part, back in parts
    ]
    return joined(one_kernel(step, part, 0.0) for part, _ in parts), kernels


def _ns(step: Step, flops: float, size: float, back: bool, speed: Speed) -> float:
    """A fused kernel; at worst, with conversions around it."""
    extra = memory_ns(step, speed, size) if speed is WORST else 0.0
    return attention_ns(step, speed, (BACKWARD if back else 1.0) * flops, back) + extra


FIX = Fix("attention_dtype", "Attention in bf16", _find, ("gpu", "shapes"))
