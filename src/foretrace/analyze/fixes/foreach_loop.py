"""Update all parameters in one call, not one by one.

What it looks for: a loop of in-place ops or norms over tensors of different shapes, as an average
of the weights or a hand-written optimizer makes: a long run of such ops with nothing between them.

What must hold: none of them is in the step of one of PyTorch's optimizers, which have `fused=True`,
or in the backward pass. The shapes are recorded, and there are several.

What changes: `torch._foreach_...` launches a kernel for some thirty tensors, which moves the same
bytes. On the host a tensor costs 1 us in it, not a call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._copies import with_gaps
from foretrace.analyze.fixes._step import Step
from foretrace.analyze.rules.unfused_optimizer import PREFIX
from foretrace.base.arrays import Ints
from foretrace.base.units import plural
from foretrace.model import replay
from foretrace.model.autograd import ENGINE
from foretrace.model.replay import GraphChange

NAMES = "add_ mul_ sub_ div_ lerp_ copy_ zero_ clamp_ addcmul_ addcdiv_ linalg_vector_norm norm"
OPS = frozenset(f"aten::{name}" for name in NAMES.split())
MANY, SHAPES = 32, 3
TENSOR_NS = 1_000  # on the host, for each tensor of a call
TENSORS = 30  # that one kernel takes
KERNEL_NS = 2_000


def _find(step: Step) -> Iterator[Proposal]:
    for run in _runs(step):
        dims = {str(call.dims[0]) for at in run if (call := step.call(at)) and call.dims}
        if len(run) >= MANY and len(dims) >= SHAPES:
            yield _proposal(step, np.array(run))


def _runs(step: Step) -> Iterator[list[int]]:
    """Ops of these names that follow each other, with nothing launched between."""
    host, run = step.trace.host, list[int]()
    inside = _elsewhere(step)
    above = host.nearest_op(step.trace.gpu.launch[step.rows])
    launching = set(step.callers(above[above >= 0]).tolist())
    for event in step.outermost(step.inside & host.is_op).tolist():
        if event in launching and step.name(event) in OPS and not inside[event]:
            run.append(event)
        elif event in launching:
            yield run
            run = []
    yield run


def _elsewhere(step: Step) -> np.ndarray:
    """Events below an optimizer's step or a node of the backward pass."""
    host = step.trace.host
    chosen = host.named(lambda name: name.startswith((PREFIX, ENGINE)))
    found: np.ndarray = host.nearest(np.arange(host.count), chosen) >= 0
    return found


def _proposal(step: Step, run: Ints) -> Proposal:
    names = Counter(step.name(event).removeprefix("aten::") for event in run.tolist())
    rows, removed = step.below(run), with_gaps(step, run)
    cost = len(run) * (replay.COST.op + replay.COST.call)
    held = max(sum(end - start for start, end in removed) - cost, 1)
    left = min(len(run) * TENSOR_NS / held, 1.0)
    kernels = max(len(run) // TENSORS, len(names))
    ns = max(_moved_ns(step, rows), kernels * KERNEL_NS)
    gone = frozenset(rows[1:].tolist())
    name = names.most_common(1)[0][0]
    listed = f"torch._foreach_{name.removeprefix('linalg_vector_')}"
    return Proposal(
        f"{listed} over all tensors, not a loop",
        f"{plural(len(run), 'call')} of {', '.join(names)} on one tensor each",
        GraphChange(removed, left, {int(rows[0]): ns}, gone),
        worst=GraphChange(removed, min(3 * left, 1.0), {int(rows[0]): step.ns(rows)}, gone),
        events=step.events(rows),
    )


def _moved_ns(step: Step, rows: Ints) -> float:
    """The time of what the kernels move; at most what they take now."""
    cases = [step.case(row) for row in rows.tolist()]
    moved = sum(case.bytes or 0 for case in cases if case)
    return min(step.move_ns(moved) / 0.8, step.ns(rows))


FIX = Fix("foreach_loop", "Update all parameters in one call", _find, ("gpu", "shapes"))
