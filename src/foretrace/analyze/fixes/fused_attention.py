"""Attention in one kernel instead of matmul, softmax and matmul.

What it looks for: a softmax between two batched matmuls of its size (scale, mask, cast and dropout
may lie between), and calls of `scaled_dot_product_attention` that took the math path.

What must hold: the first matmul writes as many scores as the softmax reads, and the second reads
them again (the detection of the rule `attention_math`). A mask made with `triu` or `tril` is
causal.

What changes: the ops between the two matmuls, and the nodes of the backward pass that they made,
become one call each. A fused kernel takes the arithmetic of the two matmuls (backward: 2.5 times
that) at the share of the peak that cuDNN's reach on an H200. In float32 it runs without tensor
cores.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._gpu import (
    USUAL,
    Speed,
    arithmetic_ns,
    at_speeds,
    attention_ns,
    joined,
    memory_ns,
    one_for_many,
    owners,
    total,
)
from foretrace.analyze.fixes._step import Step
from foretrace.analyze.rules.attention_math import FALLBACK, between, by_hand
from foretrace.base.units import plural
from foretrace.model.intervals import Ints
from foretrace.model.replay import Change

CALL = "F.scaled_dot_product_attention"
CAUSAL = ("aten::triu", "aten::tril", "aten::triu_", "aten::tril_")
BACKWARD = 2.5  # times the arithmetic of the forward pass
CAUSAL_SHARE = 0.5  # of the scores that a causal mask leaves
PLAIN = 0.45  # of the float32 peak


def _find(step: Step) -> Iterator[Proposal]:
    fallback = step.ops(FALLBACK)
    inside = step.below(fallback)
    if len(fallback):
        groups = [np.array([call], np.int64) for call in fallback.tolist()]
        order = "let scaled_dot_product_attention use a fused kernel"
        count = plural(len(groups), "attention", "attentions")
        yield _proposal(step, groups, order, f"{count} on the math path, not in one kernel")
    mine = set(step.rows.tolist()) - set(inside.tolist())
    pairs = [pair for pair in by_hand(step.trace) if pair[0] in mine and pair[1] in mine]
    groups = [owners(step, between(step.trace, [pair])) for pair in pairs]
    if groups:
        causal = bool(len(step.ops(*CAUSAL)))
        why = f"matmul, softmax and matmul write out {len(groups)} score matrices"
        order = f"call {CALL}(q, k, v{', is_causal=True' * causal})"
        yield _proposal(step, groups, order, why, CAUSAL_SHARE if causal else 1.0)


def _proposal(step: Step, groups: list[Ints], order: str, why: str, share: float = 1.0) -> Proposal:
    changes = at_speeds(lambda speed: joined(_fused(step, group, speed, share) for group in groups))
    events = tuple(int(event) for group in groups for event in group)[:50]
    risk = "a fused kernel adds in another order: compare one output"
    return Proposal(order, why, *changes, risk=risk, events=events)


def _fused(step: Step, events: Ints, speed: Speed, share: float) -> Change:
    """One attention and its backward pass."""
    rows, nodes = step.below(events), step.backward(events)
    flops = share * total(step, rows, lambda case: case.flops if case.role == "gemm" else 0)
    rest = _outside(step, rows)
    forward = one_for_many(step, events, rows, _ns(step, speed, rows, flops, rest, False))
    behind = step.below(nodes)
    if not len(behind):
        return forward
    ns = _ns(step, speed, rows, BACKWARD * flops, 2 * rest, True)
    return joined([forward, one_for_many(step, nodes, behind, ns)])


def _ns(step: Step, speed: Speed, rows: Ints, flops: float, count: float, back: bool) -> float:
    cases = [case for row in rows.tolist() if (case := step.case(row)) and case.role == "gemm"]
    wide = any(case.id.get("dtype_in") in ("f32", "tf32") for case in cases)
    share = PLAIN * speed.attention / USUAL.attention
    work = arithmetic_ns(step, share, flops, "fp32", False)
    return max(
        work if wide else attention_ns(step, speed, flops, back), memory_ns(step, speed, count)
    )


def _outside(step: Step, rows: Ints) -> float:
    """The bytes of queries, keys, values and the result: what the matmuls move but the scores."""
    cases = [case for row in rows.tolist() if (case := step.case(row)) and case.role == "gemm"]
    if len(cases) < 2:
        return 0.0
    scores = 2 * (cases[0].bytes_written or 0)
    return max(sum(case.bytes or 0 for case in cases) - scores, 0.0)


FIX = Fix("fused_attention", "Attention in one kernel", _find, ("gpu", "shapes"))
