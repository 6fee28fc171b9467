"""Walk a graph backward once: the sum of the losses.

What it looks for: autograd nodes that run several times in a step (`backward(retain_graph=True)`
once for each loss).

What must hold: each pass ends in gradients of parameters (`AccumulateGrad`), so their sum is what
the program wants. No optimizer steps between the passes. No pass makes nodes itself: the gradient
of a gradient cannot be added up.

What changes: each node runs once; the later runs go, on the host and on the GPU. A node that only
one loss has stays.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.units import plural
from foretrace.look.fixes._step import Ints, Proposal, Proposals, Step, fix
from foretrace.trace.autograd import ENGINE, STEP

GRADIENT = f"{ENGINE}torch::autograd::AccumulateGrad"


@fix("Walk a graph backward once", "gpu")
def _find(step: Step) -> Proposals:
    # runs of nodes in order of time, outermost
    named = step.trace.host.named(lambda name: name.startswith(ENGINE))
    nodes = step.outermost(step.inside & named)
    nodes = nodes[step.nodes.sequence[nodes] >= 0]
    made = np.stack((step.nodes.sequence[nodes], step.nodes.thread[nodes]))
    _, first, count = np.unique(made, axis=1, return_index=True, return_counts=True)
    again = np.delete(nodes, first)
    if len(again) < 4 or not _adds_up(step, nodes, again):  # nodes: less is no graph of a model
        return
    again = np.concatenate((again, _extra_gradients(step, again)))
    order = "one backward pass: (loss1 + loss2).backward()"
    why = f"{int(count.max())} backward passes per step run {plural(len(again), 'node')} again"
    change = step.without(again, step.with_gaps(again))
    yield Proposal(order, why, change, events=step.events(step.below(again)))


def _adds_up(step: Step, nodes: Ints, again: Ints) -> bool:
    host = step.trace.host
    first, last = int(host.start[nodes].min()), int(host.end[again].max())
    within = step.inside & (host.start >= first) & (host.start < last)
    if (within & host.named(lambda name: name.startswith(STEP))).any():
        return False
    made = np.flatnonzero(step.nodes.made[: host.count] & within & host.is_op)
    made = made[step.under(made, nodes)]
    walked = np.isin(step.nodes.sequence[made], step.nodes.sequence[nodes])
    return not walked.any() and len(step.ops(GRADIENT)) > len(_extra_gradients(step, again)) > 0


def _extra_gradients(step: Step, again: Ints) -> Ints:
    """Gradients that the later passes add to those of the first."""
    host, found = step.trace.host, step.ops(GRADIENT)
    later: Ints = found[host.start[found] >= host.start[again].min()]
    return later[~np.isin(later, again)]
