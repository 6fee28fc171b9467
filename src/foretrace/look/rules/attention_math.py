"""Attention computed step by step instead of in one kernel.

What it shows: calls of `scaled_dot_product_attention` that fell back to the math path, and
attention written out by hand: matmul, softmax, matmul. The whole score matrix lies in memory
between them.

Why it matters: a fused kernel (flash, memory-efficient, cuDNN) never writes the scores, which grow
with the square of the sequence. Published for an A100 (batch 8, 16 heads, sequence 1024, bf16,
causal): 7.2 ms and 20 kernels with the math path, 2.0 ms by hand, 0.15 ms with flash attention.

How it is computed: GPU operations below `_scaled_dot_product_attention_math`. Also softmax kernels
with a batched matmul shortly before that writes a tensor of the softmax's size, and one shortly
after that reads one, with every kernel and copy that ran between the two matmuls. What one kernel
saves is predicted by the fix `fused_attention`.

When it is wrong: the trace does not tell why PyTorch fell back. An odd head size, a mask that the
fused kernels do not take, or float32 scores can be the reason (`torch.nn.attention.sdpa_kernel`
with one backend makes PyTorch say why). What runs between the two matmuls on the same stream is
counted, whatever it is for.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.arrays import distinct
from foretrace.base.units import plural, time_text, times_text
from foretrace.look.finding import Finding
from foretrace.look.rules._seen import Found, Seen, rule
from foretrace.trace.intervals import Ints
from foretrace.trace.kernels import Case
from foretrace.trace.trace import Trace

FALLBACK = "aten::_scaled_dot_product_attention_math"
BATCHED = frozenset({"aten::bmm", "aten::baddbmm", "aten::matmul"})
# Scale, mask, a cast and dropout may lie between the softmax and its matmul.
REACH = 5


@rule(
    "Attention computed step by step",
    "gpu ops",
    fixes="fused_attention",
    example="attention_inplace_8x16x1024x64_bf16",
)
def _check(seen: Seen) -> Found:
    origins = seen.trace.origins
    call = origins.calls(seen.within(origins.op, lambda name: name == FALLBACK))
    fallback = np.flatnonzero((call >= 0) & seen.counted)
    if len(fallback):
        what = "scaled_dot_product_attention fell back to the math path"
        yield _finding(seen, fallback, len(distinct(call[fallback])), what)
    pairs = [pair for pair in by_hand(seen.trace) if call[pair[0]] < 0]
    if pairs:
        what = "Attention written out as matmul, softmax, matmul"
        yield _finding(seen, between(seen.trace, pairs), len(pairs), what)


def _finding(seen: Seen, rows: Ints, calls: int, what: str) -> Finding:
    count, kernels = seen.each(calls), seen.each(int(seen.gpu.is_kernel[rows].sum()))
    detail = (
        f"{plural(kernels, 'kernel')} and {time_text(seen.ns(rows))} {seen.per}, copies between "
        "them included. Fused attention is one kernel and writes no scores."
    )
    evidence = {"calls": count, "kernels": kernels, "ns": seen.ns(rows)}
    title = f"{what} {times_text(count)} {seen.per}"
    return seen.found(title, detail, evidence, seen.gpu.id[rows])


def by_hand(trace: Trace) -> list[tuple[int, int]]:
    """Rows of `gpu` of the two matmuls around each softmax."""
    order, cases = trace.order, trace.order.cases
    middle = np.array(
        [(case.role, case.op) == ("softmax", "aten::_softmax") for case in cases], bool
    )

    def reads(case: Case, sizes: tuple[int, ...]) -> bool:
        left = case.call.tensor(0) if case.call else None
        return left is not None and left.bytes in sizes

    matmul = [case.role == "gemm" and case.op in BATCHED for case in cases]
    found: list[tuple[int, int]] = []
    for place in np.flatnonzero(middle[order.case] & order.counts).tolist():
        size = cases[order.case[place]].bytes_written
        sizes = (size, size // 2, size * 2) if size is not None else ()
        near = range(max(place - REACH, 0), min(place + REACH, len(order.case) - 1) + 1)
        around = [(at, cases[order.case[at]]) for at in near if matmul[order.case[at]]]
        before = [at for at, case in around if at < place and case.bytes_written in sizes][-1:]
        after = [at for at, case in around if at > place and reads(case, sizes)][:1]
        if before and after and order.lane[before[0]] == order.lane[after[0]]:
            found.append((int(order.row[before[0]]), int(order.row[after[0]])))
    return found


def between(trace: Trace, pairs: list[tuple[int, int]]) -> Ints:
    """All rows of `gpu` from the first to the second matmul on their stream."""
    lane = trace.gpu.lane  # rows are in time order
    rows = [first + np.flatnonzero(lane[first : last + 1] == lane[first]) for first, last in pairs]
    return distinct(np.concatenate(rows))
