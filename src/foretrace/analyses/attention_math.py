"""Attention computed step by step instead of in one kernel.

What it shows: calls of `scaled_dot_product_attention` that fell back to the math path, and
attention written out by hand: product, softmax, product. The whole score matrix lies in memory
between them.

Why it matters: a fused kernel (flash, memory-efficient, cuDNN) never writes the scores, which grow
with the square of the sequence. Published for an A100 (batch 8, 16 heads, sequence 1024, bf16,
causal): 7.2 ms and 20 kernels with the math path, 2.0 ms by hand, 0.15 ms with flash attention.

How it is computed: kernels below `_scaled_dot_product_attention_math`. Also softmax kernels with a
batched product shortly before that writes a tensor of the softmax's size, and one shortly after
that reads one. The saving is at most the time of all these kernels, less the time that the products
take at the card's peak.

When it is wrong: the trace does not tell why PyTorch fell back. An odd head size, a mask that the
fused kernels do not take, or float32 scores can be the reason (`torch.nn.attention.sdpa_kernel`
with one backend makes PyTorch say why). Kernels between the two products that belong to something
else are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyses._common import chains_with, each, ids, per, product_ns
from foretrace.model.intervals import Ints
from foretrace.model.order import Case
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule
from foretrace.units import plural, time_text, times_text

FALLBACK = "aten::_scaled_dot_product_attention_math"
BATCHED = frozenset({"aten::bmm", "aten::baddbmm", "aten::matmul"})
# Scale, mask, a cast and dropout may lie between the softmax and its product.
REACH = 5


def _check(trace: Trace) -> Iterator[Finding]:
    order = trace.order
    fallback = np.flatnonzero(chains_with(trace, lambda path: FALLBACK in path) & order.counts)
    if len(fallback):
        what = "scaled_dot_product_attention fell back to the math path"
        yield _finding(trace, fallback, _calls(trace, fallback), what)
    by_hand = np.setdiff1d(_by_hand(trace), fallback)
    if len(by_hand):
        numbers = order.case[by_hand].tolist()
        softmaxes = sum(order.cases[number].role == "softmax" for number in numbers)
        what = "Attention written out as product, softmax, product"
        yield _finding(trace, by_hand, softmaxes, what)


def _finding(trace: Trace, rows: Ints, calls: int, what: str) -> Finding:
    order = trace.order
    least = np.array([product_ns(trace, case) or 0.0 for case in order.cases])[order.case[rows]]
    ns = order.per_step(int(order.length[rows].sum()))
    saved = order.per_step(max(float((order.length[rows] - least).sum()), 0.0))
    count, kernels = each(trace, calls), each(trace, len(rows))
    title = f"{what} {times_text(count)} {per(trace)}"
    detail = (
        f"{plural(kernels, 'kernel')} and {time_text(ns)} {per(trace)}. Fused attention is one "
        "kernel and writes no scores."
    )
    evidence = {"calls": count, "kernels": kernels, "ns": ns}
    return Finding(RULE.name, "found", title, detail, evidence, ids(order.events_of(rows)), saved)


def _calls(trace: Trace, rows: Ints) -> int:
    """How many calls of the fallback op these launches belong to."""
    host, at = trace.host, trace.order.op[rows].copy()
    name = host.names.index(FALLBACK)
    while (climbing := (at >= 0) & (host.name[np.maximum(at, 0)] != name)).any():
        at[climbing] = host.parent[at[climbing]]
    return len(np.unique(at[at >= 0]))


def _by_hand(trace: Trace) -> Ints:
    """Softmax kernels with their two products, and what lies between them."""
    order, cases = trace.order, trace.order.cases
    middle = np.array(
        [(case.role, case.op) == ("softmax", "aten::_softmax") for case in cases], bool
    )
    found: list[int] = []
    for place in np.flatnonzero(middle[order.case] & order.counts).tolist():
        size = cases[order.case[place]].bytes_written
        sizes = (size, size // 2, size * 2) if size is not None else ()
        back = range(place - 1, max(place - REACH, 0) - 1, -1)
        before = next((at for at in back if _writes(cases[order.case[at]], sizes)), None)
        on = range(place + 1, min(place + REACH, len(order.case) - 1) + 1)
        after = next((at for at in on if _reads(cases[order.case[at]], sizes)), None)
        if before is not None and after is not None:
            found += range(before, after + 1)
    return np.unique(np.array(found, np.int64))


def _writes(case: Case, sizes: tuple[int, ...]) -> bool:
    return case.role == "gemm" and case.op in BATCHED and case.bytes_written in sizes


def _reads(case: Case, sizes: tuple[int, ...]) -> bool:
    left = case.call.tensor(0) if case.call and case.role == "gemm" and case.op in BATCHED else None
    return left is not None and left.bytes in sizes


RULE = Rule("attention_math", "Attention computed step by step", _check, ("gpu", "ops"))
