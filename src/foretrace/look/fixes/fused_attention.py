"""Attention in one kernel instead of matmul, softmax and matmul.

What it looks for: a softmax between two batched matmuls of its size (scale, mask, cast and dropout
may lie between), and calls of `scaled_dot_product_attention` that took the math path.

What must hold: the first matmul writes as many scores as the softmax reads, and the second reads
them again (the detection of the rule `attention_math`). A mask made with `triu` or `tril`, or one
of the size of one score matrix (without batch and heads), is causal. Tensors without a dimension
for heads take the math path. Where the mean of the scores over the heads is computed as well,
`nn.MultiheadAttention` returns it: that module takes the fused kernel with `need_weights=False`.
What PyTorch's own ops write out (`_native_multi_head_attention`) is no code of the program.

What changes: the ops between the two matmuls, and the nodes of the backward pass that they made,
become one call each. A fused kernel takes the arithmetic of the two matmuls (backward: 2.5 times
that, half of it with a causal mask) at the share of the peak that cuDNN's reach on an H200. In
float32 it runs without tensor cores. On a CPU 0.4 of the time goes, 0.55 with a causal mask and 0.3
in training (one core, 32 to 1,024 tokens: 0.1 to 0.7). Dropout takes the math path there: with it
nothing is proposed.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from msgspec import Struct

from foretrace.base.units import plural
from foretrace.look.fixes._changes import USUAL, NewTimes, Speed, joined, replacing, shown
from foretrace.look.fixes._cpu import CpuStep
from foretrace.look.fixes._step import Case, GraphChange, Ints, Proposal, Proposals, Step, fix
from foretrace.look.rules.attention_math import FALLBACK, between, by_hand

CALL = "F.scaled_dot_product_attention"
INSIDE = ("aten::scaled_dot_product_attention", "aten::_native_multi_head_attention")
TRIANGLES = ("aten::triu", "aten::tril", "aten::triu_", "aten::tril_")
BACKWARD = 2.5  # times the arithmetic of the forward pass
PLAIN = 0.45  # of the float32 peak
WIDE = frozenset({"float", "double"})
CALL_NS = 60_000  # of a call of attention, with the profiler; a plain matmul takes half of it
HEADED = 4  # dimensions that fused kernels take
ATTEND = "call nn.MultiheadAttention with need_weights=False"
FLAT = "give SDPA 4-D tensors: [batch, heads, tokens, size]"
IS_CAUSAL = 5  # the argument of the math path
REACH = 6  # ops that compute, from a matmul of a CPU to the softmax and on
TRAINED, MASKED, PLAINLY = (0.3, 0.6, 0.1), (0.55, 0.7, 0.3), (0.4, 0.6, 0.1)  # of the time goes
RISK = "a fused kernel adds in another order: compare an output"
RANDOM = frozenset({"dropout", "native_dropout", "bernoulli"})


class WrittenAttention(Struct, frozen=True):
    """The ops of one attention, whether in float32, whether causal, and its query's dimensions."""

    events: Ints
    wide: bool
    causal: bool
    dims: int = 4


def _on_cpu(step: CpuStep) -> Proposals:
    rows = [at for at, each in enumerate(step.computing.tolist()) if step.bare(each) == "_softmax"]
    found = [events for at in rows if len(events := _in_order(step, at))]
    if not found:
        return
    triangles = step.ops(*TRIANGLES)
    order, why = _texts(step, len(found), bool(len(triangles)))
    events = step.distinct_rows([*found, *(step.backward(each) for each in found)])
    shares = TRAINED if step.trains else MASKED if len(triangles) else PLAINLY
    yield step.proposal(order, why, events.tolist(), shares, RISK)


def _in_order(step: CpuStep, at: int) -> Ints:
    """The outermost ops from the matmul before this softmax to that after it; none with dropout."""
    ops, call = step.computing, step.arguments.get(int(step.computing[at]))
    size = scores.elements if call and (scores := call.tensor(0)) else 0
    before, after = ops[max(at - REACH, 0) : at], ops[at + 1 : at + 1 + REACH]
    writes = [each for each in before.tolist() if _product(step, each, 0) == size > 1]
    reads = [each for each in after.tolist() if _product(step, each, 1) == size > 1]
    if not writes or not reads:
        return ops[:0]
    among = ops[np.searchsorted(step.trace.host.start[ops], step.trace.host.start[writes[-1]]) :]
    among = among[step.trace.host.start[among] <= step.trace.host.start[reads[0]]]
    random = any(step.bare(each) in RANDOM for each in among.tolist())
    if random or step.under(among, step.ops(*INSIDE)).any():
        return ops[:0]
    return step.distinct_rows([step.callers(among)])


def _product(step: CpuStep, event: int, read: int) -> int:
    """The elements that a batched matmul writes, or reads as its first factor; 0 for other ops."""
    added = step.bare(event) == "baddbmm"  # to a mask, the first argument
    call = step.arguments.get(event) if added or step.bare(event) == "bmm" else None
    left, right = (call.tensor(added), call.tensor(added + 1)) if call else (None, None)
    if left is None or right is None or not right.dims:
        return 0
    return left.elements if read else left.elements // max(left.dims[-1], 1) * right.dims[-1]


def _texts(step: Step, count: int, causal: bool) -> tuple[str, str]:
    matrices = plural(count, "score matrix", "score matrices")
    why = f"matmul, softmax and matmul write out {matrices}"
    softmax, mean = (
        [tensors[0] for event in step.ops(name).tolist() if (tensors := step.tensors(event))]
        for name in ("aten::_softmax", "aten::mean")
    )
    sizes = {scores.elements for scores in softmax}
    # `nn.MultiheadAttention` computes the mean of the scores over the heads
    if any(each.elements in sizes and len(each.dims) == HEADED for each in mean):
        return ATTEND, f"{why}, and the mean over the heads is computed"
    return f"call {CALL}(q, k, v{', is_causal=True' * causal})", why


@fix("Attention in one kernel", "gpu shapes", on_cpu=_on_cpu)
def _find(step: Step) -> Proposals:
    fallback = _launching(step, [_on_math_path(step, at) for at in step.ops(FALLBACK).tolist()])
    if fallback:
        flat = all(each.dims < HEADED for each in fallback)
        order = FLAT if flat else "let scaled_dot_product_attention use a fused kernel"
        count = plural(len(fallback), "attention", "attentions")
        yield _proposal(step, fallback, order, f"{count} on the math path, not in one kernel")
    mine = set(step.rows.tolist()) - set(step.below(step.ops(FALLBACK, *INSIDE)).tolist())
    pairs = [pair for pair in by_hand(step.trace) if pair[0] in mine and pair[1] in mine]
    owners = [step.owners(between(step.trace, [pair])) for pair in pairs]
    found = _launching(step, [_written(step, events) for events in owners])
    if found:
        causal = all(each.causal for each in found)
        yield _proposal(step, found, *_texts(step, len(found), causal))


def _on_math_path(step: Step, event: int) -> WrittenAttention:
    query, causal = step.tensor(event), bool(step.call(event).flag(IS_CAUSAL))
    parts = step.in_order(np.flatnonzero(step.inside & (step.trace.host.parent == event)))
    if query is None:
        return WrittenAttention(parts, False, causal, HEADED)
    return WrittenAttention(parts, query.type in WIDE, causal, len(query.dims))


def _launching(step: Step, found: list[WrittenAttention]) -> list[WrittenAttention]:
    """Those whose GPU work is part of the step."""
    return [each for each in found if len(each.events) and len(step.below(each.events))]


def _written(step: Step, events: Ints) -> WrittenAttention:
    """Causal where there are triangles, or an op takes the scores and a mask that is the same for
    each of their matrices.
    """
    causal = bool(len(step.ops(*TRIANGLES)))
    for event in events.tolist():
        tensors = [each for each in step.tensors(event) if each.dims]
        size = math.prod(tensors[0].dims[-2:]) if tensors else 0
        masked = any(each.elements == size for each in tensors[1:])
        causal |= masked and 1 < size < tensors[0].elements
    cases = _matmuls(step, step.below(events))
    wide = any(case.id.get("dtype_in") in ("f32", "tf32") for case in cases)
    return WrittenAttention(events, wide, causal)


def _matmuls(step: Step, rows: Ints) -> list[Case]:
    return [case for row in rows.tolist() if (case := step.case(row)) and case.role == "gemm"]


def _proposal(step: Step, found: list[WrittenAttention], order: str, why: str) -> Proposal:
    changes = replacing([_fused(step, each) for each in found])
    events = shown(np.concatenate([each.events for each in found]))
    return Proposal(order, why, *changes, risk=RISK, events=events)


def _fused(step: Step, found: WrittenAttention) -> tuple[GraphChange, NewTimes]:
    """What is gone of one attention and its backward pass, and the kernels instead."""
    events, nodes = found.events, step.backward(found.events)
    rows, behind = step.below(events), step.below(nodes)
    matmuls = _matmuls(step, rows)
    share = 0.5 if found.causal else 1.0  # of the scores that a causal mask leaves
    flops, rest = share * sum(case.flops or 0 for case in matmuls), 0.0
    if len(matmuls) > 1:  # queries, keys, values and the result: all that moves but the scores
        scores = 2 * (matmuls[0].bytes_written or 0)
        rest = max(sum(case.bytes or 0 for case in matmuls) - scores, 0.0)

    def price(part: Ints, back: bool, speed: Speed) -> float:
        plain, amount = PLAIN * speed.attention / USUAL.attention, flops * (BACKWARD if back else 1)
        work = step.attention_ns(speed, amount, back)
        if found.wide:
            work = step.arithmetic_ns(plain, amount, "fp32", False)
        return min(max(work, step.memory_ns(speed, 2 * rest if back else rest)), step.ns(part))

    kept = (0,) if step.trace.host.length[events[0]] > CALL_NS else (0, -1)
    changes = [step.one_for_many(events, rows, 0.0, kept)]
    times: NewTimes = {int(rows[0]): partial(price, rows, False)}
    if len(behind):
        changes.append(step.one_for_many(nodes, behind, 0.0))
        times[int(behind[0])] = partial(price, behind, True)
    return joined(changes), times
