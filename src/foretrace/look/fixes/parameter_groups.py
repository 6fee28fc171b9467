"""Few parameter groups in the optimizer.

What it looks for: a step of one of PyTorch's optimizers that calls its fused or `foreach` op many
times, each for a few parameters: one group for each parameter (a weight decay or a learning rate of
its own).

What must hold: at least 16 calls of the op in one `optimizer.step()`, and fewer than four
parameters with a gradient for each of them.

What changes: parameters of one setting share a group, and two groups remain: with and without
weight decay. The host then visits each parameter in Python, and launches for two groups. The
kernels move the same bytes; each that is gone takes its start with it.
"""

from __future__ import annotations

from collections import Counter

from foretrace.look.fixes import fused_optimizer as fused
from foretrace.look.fixes._changes import of_each
from foretrace.look.fixes._step import GraphChange, Proposal, Proposals, Step, fix

GROUPS = 16
KEPT = 2  # groups: with and without weight decay
LISTS = ("aten::_fused_", "aten::_foreach_")
SPREAD = (1.0, 0.6, 1.8)  # of the host time that is left


@fix("Few parameter groups", "gpu")
def _find(step: Step) -> Proposals:
    for event in fused.steps_of(step).tolist():
        names = [step.name(op) for op in fused.ops_of(step, [event]).tolist()]
        calls = Counter(name for name in names if name.startswith(LISTS))
        groups, count = min(calls.values(), default=0), fused.parameters(step)
        if groups >= GROUPS and groups <= count < 4 * groups:  # parameters in a group
            yield _proposal(step, event, groups, count)


def _proposal(step: Step, event: int, groups: int, count: int) -> Proposal:
    kind = fused.kind_of(step, event)
    removed, rows = step.stretches([event]), step.below([event])
    cost = fused.STEP_NS + KEPT * fused.GROUP_NS + fused.PARAMETER_NS.get(kind, 8_000) * count
    left = cost / max(step.host_ns(removed), 1.0)
    times, kept = step.trace.gpu.length[rows], rows[: max(len(rows) * KEPT // groups, 1)]
    each = float(times.sum() - times.min() * (len(rows) - len(kept))) / len(kept)
    new, gone = dict.fromkeys(kept.tolist(), each), frozenset(rows[len(kept) :].tolist())
    changes = of_each(lambda part: GraphChange(removed, min(part * left, 1.0), new, gone), SPREAD)
    order = f"give {kind} two parameter groups: decay and no decay"
    why = f"optimizer.step() runs {groups} groups for {count} parameters"
    return Proposal(order, why, *changes, events=step.events(rows))
