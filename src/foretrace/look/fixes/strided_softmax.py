"""Softmax over the dimension that is contiguous in memory.

What it looks for: softmax kernels for a dimension that is not the last one. They walk through
memory in strides, and are far below the memory's bandwidth.

What must hold: the kernel is the spatial one, and has less than a tenth of the bandwidth.

What changes: the kernel takes the time of one over the last dimension. Where the dimension has
stride 1 (the tensor is a transposed view), the copy that PyTorch makes before is gone too: the
softmax can be taken before the transpose. Where it has not, the tensor is transposed before and
after, in two copies.
"""

from __future__ import annotations

from foretrace.base.units import plural
from foretrace.look.fixes._changes import Speed, at_speeds, joined
from foretrace.look.fixes._step import GraphChange, Proposal, Proposals, Step, fix
from foretrace.work.costs import OpCall

SPATIAL = "spatialsoftmax"
MOST_PERCENT = 10.0  # of the nearest roof
SHARE = 0.55  # of what other kernels move: a softmax reads its rows more than once


@fix("Softmax over the last dimension", "gpu shapes")
def _find(step: Step) -> Proposals:
    rows = step.rows_where(
        lambda case: SPATIAL in case.name.lower() and (case.roof_percent or 100.0) < MOST_PERCENT
    )
    if not len(rows):
        return
    calls = [case.call for row in rows.tolist() if (case := step.case(row))]
    view = all(_contiguous(call) for call in calls)
    over = "softmax over the last dimension"
    order = f"take {over}, then transpose" if view else f"transpose, then {over}"
    why = f"{plural(len(rows), 'softmax', 'softmaxes')} per step over a dimension with strides"
    changes = at_speeds(lambda speed: joined(_one(step, row, speed) for row in rows.tolist()))
    yield Proposal(order, why, *changes, events=step.events(rows))


def _contiguous(call: OpCall | None) -> bool:
    """Whether the dimension of a softmax has stride 1; for a backward op, of the output."""
    tensor = call.tensor(0) if call else None
    dim = call.integer(2 if "backward" in call.name else 1) if call else None
    if tensor is None or dim is None or not tensor.dims or not tensor.strides:
        return False
    known = len(tensor.strides) == len(tensor.dims)
    return known and tensor.strides[dim % len(tensor.dims)] == 1


def _one(step: Step, row: int, speed: Speed) -> GraphChange:
    case = step.case(row)
    if case is None or case.bytes is None:
        return GraphChange()
    ns, gone = step.memory_ns(speed, case.bytes / SHARE), list[int]()
    if _contiguous(case.call):  # the copies that the op of this kernel makes
        op = step.makers(step.trace.gpu.launch[[row]])
        below = step.below(op[op >= 0]).tolist()
        gone = [each for each in below if (of := step.case(each)) and of.role == "copy"]
    else:
        ns += 2 * step.memory_ns(speed, case.bytes / 0.35)  # a transposing copy of a strided tensor
    return GraphChange(length={row: min(ns, step.ns([row]))}, gone=frozenset(gone))
