"""A kernel that is far below what the card can do.

What it looks for: the kernel with most of the GPU time, where it reaches less than a tenth of every
roof: of the memory's bandwidth and of the peak for its arithmetic.

What must hold: its bytes and its arithmetic are known exactly, one launch takes at least 50 us, and
it has at least 30% of the GPU's time. Kernels that another fix explains (matmuls with odd sizes,
float32 without TF32, softmax with strides, atomics that collide) are left to it.

What changes: nobody knows what the program will use instead, so the prediction is cautious: half of
the time; at best a third of the roof, at worst nine tenths of the time.
"""

from __future__ import annotations

from foretrace.base.units import plural
from foretrace.look.fixes._changes import BEST, USUAL, Speed
from foretrace.look.fixes._step import Case, Proposal, Proposals, Step, fix
from foretrace.look.fixes.colliding_atomics import ADDING
from foretrace.look.fixes.float64 import is_double
from foretrace.look.rules.float32_matmuls import is_plain
from foretrace.look.rules.misaligned_matmuls import misaligned
from foretrace.work.traffic import Certainty

MOST_PERCENT = 10.0
SHORTEST_NS = 50_000
LEAST_SHARE = 0.3
OF_ROOF = 1 / 3
# What is faster, by a part of the kernel's name or of the op's.
ADVICE = {
    "depthwise": "run depthwise convolutions in channels_last",
    "grouped": "use fewer groups, or channels_last",
    "embedding_dense_backward": "write a small embedding as F.one_hot(index) @ table",
    "cumsum": "take cumsum over the last dimension",
    "sort": "use torch.topk where few elements are used",
    "index": "index whole rows along the first dimension",
    "copy": "choose a layout that needs no transposing copy",
    "sum": "reduce over the last dimension, or in two steps",
}


@fix("A kernel far below the card's roofs", "gpu")
def _find(step: Step) -> Proposals:
    spent: dict[int, float] = {}
    for row in step.rows_where(_is_slow).tolist():
        if case := step.case(row):
            spent[case.number] = spent.get(case.number, 0.0) + step.ns([row])
    number = max(spent, key=lambda at: spent[at], default=-1)
    if number < 0 or spent[number] < LEAST_SHARE * step.ns(step.rows):
        return
    case = step.trace.order.cases[number]
    mine = step.rows_where(lambda each: each.number == number)
    share = f"{case.roof_percent:.1f}%"
    why = f"{plural(len(mine), 'kernel')} of {case.op} per step at {share} of the card's roof"
    text, op = f"{case.name} {case.op}".lower(), case.op.removeprefix("aten::")
    known = (what for part, what in ADVICE.items() if part in text)
    order = next(known, f"write {op} with another op or layout")
    yield Proposal(order, why, *step.repriced(mine, _ns), events=step.events(mine))


def _is_slow(case: Case) -> bool:
    """Whether a kernel is surely slow, and no other fix has a better answer."""
    named = "softmax" in case.name.lower() or case.op in ADDING or case.role == "attention"
    explained = named or misaligned(case) or is_plain(case) or is_double(case)
    sure = case.roof_percent is not None and case.cost_certainty == Certainty.EXACT
    known = sure and (case.roof_percent or 0.0) < MOST_PERCENT
    return known and (case.median_ns or 0) >= SHORTEST_NS and not explained


def _ns(case: Case, speed: Speed) -> float:
    now = case.median_ns or 0.0
    if speed is BEST:
        return now * (case.roof_percent or 0.0) / 100 / OF_ROOF
    return now * (0.5 if speed is USUAL else 0.9)
