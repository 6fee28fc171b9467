"""Run samples on a CPU as one batch.

What it looks for: at least 32 calls of tiny matmuls with one row each and the same shapes, in a
step that a CPU computes, and a `stack` or `cat` behind them.

What must hold: no sample needs the result of another, which a trace does not show.

What changes: of the rounds four remain, at most half of them; at worst 30% of the time.
"""

from __future__ import annotations

from collections import Counter

from foretrace.analyze.fixes._cpu import MATMULS, CpuStep, dense, elements
from foretrace.analyze.fixes._step import Proposal, Proposals, Step, fix
from foretrace.base.arrays import median
from foretrace.base.units import plural
from foretrace.model.costs import OpCall

SMALL, TINY_NS, MANY = 16_384, 50_000, 32
GATHERS = ("aten::stack", "aten::cat")


@fix("Run samples on a CPU as one batch")
def _find(step: Step) -> Proposals:
    """A loop over samples: many calls of tiny matmuls with one row, and a gathering behind them."""
    if not isinstance(step, CpuStep):
        return
    calls, host = step.arguments, step.trace.host
    small = [event for event, call in calls.items() if elements(call) <= SMALL]
    tiny = [event for event in small if step.took_ns([event]) < TINY_NS]
    kinds = Counter((step.bare(event), str(calls[event].dims)) for event in tiny)
    often = [at for at in tiny if kinds[step.bare(at), str(calls[at].dims)] >= MANY]
    single = [at for at in often if step.bare(at) in MATMULS and _of_one_row(calls[at])]
    gathers = step.ops(*GATHERS)
    behind = gathers[host.start[gathers] >= host.end[often[-1]]] if often else gathers[:0]
    if single and len(behind):
        count = round(median([number for number in kinds.values() if number >= MANY]))
        why = f"{plural(len(single), 'matmul')} of one row each, in {count} rounds of the same ops"
        yield _proposal(step, [*often, int(behind[0])], count, why)


def _proposal(step: CpuStep, events: list[int], count: int, why: str) -> Proposal:
    """All from the first op to the last, less other ops among them."""
    host, mine = step.trace.host, set(events)
    start, end = int(host.start[events].min()), int(host.end[events].max())
    among = [at for at in step.computing.tolist() if start <= host.start[at] < end]
    other = [at for at in among if at not in mine and step.took_ns([at]) >= TINY_NS]
    part = max(end - start - step.took_ns(other), 0.0) / max(end - start, 1)
    usual, best, worst = (part * each for each in (1 - min(4 / count, 0.5), 1 - 1 / count, 0.7))
    order = "run the samples as one batch (torch.stack)"
    risk = "no sample may need the result of another"
    stretches = ((start, end),)
    return step.proposal(order, why, events[:-1], (usual, best, worst), risk, stretches)


def _of_one_row(call: OpCall) -> bool:
    """Whether the first operand that is no bias has one row."""
    found = dense(call)[1 if call.name == "aten::addmm" else 0 :]
    return bool(found) and (len(found[0].dims) == 1 or found[0].dims[0] == 1)
