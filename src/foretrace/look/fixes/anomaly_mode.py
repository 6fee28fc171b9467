"""Switch off anomaly detection.

What it looks for: a check for NaN (`isnan`, `any`, `item`) after the nodes of the backward pass,
made by the engine of autograd itself: `torch.autograd.detect_anomaly` is on.

What must hold: three nodes at least have such checks.

What changes: the checks go with their kernels and waits. In the forward pass every op that makes a
node keeps its Python traceback; of the time before it does anything else, 5 us remain. On a CPU
the trace does not part that time from the work of the op, and only the checks go.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.units import plural
from foretrace.look.fixes._changes import Stretches
from foretrace.look.fixes._cpu import CpuStep
from foretrace.look.fixes._step import Ints, Proposal, Proposals, Step, fix, shown

ENGINE = "autograd::engine::evaluate_function"
CHECKS = ("aten::isnan", "aten::_is_any_true", "aten::any", "aten::item", "aten::is_nonzero")
TRACEBACK_NS = 5_000
ORDER = "remove torch.autograd.detect_anomaly()"
ON_CPU = (1.0, 1.0, 0.8)  # of the time goes


@fix("Switch off anomaly detection", "gpu", steps="any")
def _find(step: Step) -> Proposals:
    # the ops that check right below the engine, not in a node
    host, checks = step.trace.host, step.ops(*CHECKS)
    engine = host.named(lambda name: name.startswith(ENGINE))
    above = host.parent[checks].astype(np.int64)
    checks = checks[(above >= 0) & engine[above]]
    count = sum(step.name(event) == CHECKS[0] for event in checks.tolist())
    if count < 3:
        return
    times, removed = plural(count, "check"), _joined(step, checks)
    if isinstance(step, CpuStep):
        why = f"{times} for NaN per step in the backward pass"
        yield step.proposal(ORDER, why, checks.tolist(), ON_CPU, stretches=removed)
        return
    why = f"{times} for NaN in the backward pass, "
    why += f"{plural(len(step.waits_below(checks)), 'wait')} per step"
    change = step.without(checks, removed + _tracebacks(step))
    yield Proposal(ORDER, why, change, events=shown(checks))


def _joined(step: Step, checks: Ints) -> Stretches:
    """The time of checks that follow each other in one node, until the engine leaves the node."""
    host = step.trace.host
    above = host.parent[checks]
    first = np.flatnonzero(np.append(True, above[1:] != above[:-1]))
    last = checks[np.append(first[1:], len(checks)) - 1]
    # the engine leaves the node where nothing else happens in it after its last check
    below = np.flatnonzero(step.inside & (host.parent >= 0))
    final = np.zeros(host.count, np.int64)
    np.maximum.at(final, host.parent[below], host.start[below])
    leaves = final[host.parent[last]] <= host.start[last]
    until = np.where(leaves, host.end[above[first]], host.end[last])
    return tuple(zip(host.start[checks[first]].tolist(), until.tolist(), strict=True))


def _tracebacks(step: Step) -> Stretches:
    """The time from the start of ops that make nodes to what they call first."""
    host = step.trace.host
    made = np.flatnonzero(step.nodes.made[: host.count] & step.inside & host.is_op)
    first = np.full(host.count, np.iinfo(np.int64).max)
    below = np.flatnonzero(step.inside & (host.parent >= 0))
    np.minimum.at(first, host.parent[below], host.start[below])
    begin, until = host.start[made] + TRACEBACK_NS, np.minimum(first[made], host.end[made])
    pairs = zip(begin.tolist(), until.tolist(), strict=True)
    return tuple(pair for pair in pairs if pair[1] > pair[0])
