"""An index instead of a product with one-hot rows.

What it looks for: `one_hot`, and shortly after it a matmul whose left factor is that tensor: as
many rows as there were indices, as many columns as classes.

What must hold: the classes are what the matmul sums over. A transposed one-hot factor adds rows
together; that is not an index, and stays.

What changes: the one-hot tensor and its conversion are gone, with their waits; of the host time,
that of the shortest op remains. The matmul becomes a kernel that reads and writes the chosen rows;
its backward node one that fills the gradient of the table and adds the rows.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.units import plural
from foretrace.look.fixes._changes import Speed, at_speeds, joined
from foretrace.look.fixes._cpu import CpuStep
from foretrace.look.fixes._step import GraphChange, Proposal, Proposals, Step, fix, shown
from foretrace.look.rules.misaligned_matmuls import FIRST
from foretrace.work.costs import Tensor

Group = tuple[list[int], Tensor, Tensor]
ORDER = "index the table: F.embedding(index, table)"
ON_CPU = (0.7, 0.95, 0.4)  # of the time goes


@fix("An index, not a product with one-hot rows", "gpu shapes", steps="any")
def _find(step: Step) -> Proposals:
    events = step.ops("aten::one_hot").tolist()
    found = [group for event in events if (group := _group(step, event))]
    if not found:
        return
    matmuls, classes = plural(len(found), "matmul"), found[0][2].dims[0]
    why = f"{matmuls} per step with one-hot rows of {classes} columns"
    ops = [op for group in found for op in group[0]]
    if isinstance(step, CpuStep):
        yield step.proposal(ORDER, why, [*ops, *step.backward(ops).tolist()], ON_CPU)
        return
    changes = at_speeds(lambda speed: joined(_index(step, group, speed) for group in found))
    yield Proposal(ORDER, why, *changes, events=shown(ops))


def _group(step: Step, event: int) -> Group | None:
    """The ops from this one_hot to its matmul, with the factors of that."""
    index, passed = step.tensor(event), [event]

    def chosen(left: Tensor, right: Tensor) -> bool:
        """Whether the left factor can be the one-hot rows of this index."""
        rows = left.elements // max(left.dims[-1], 1) if left.dims else 0
        known = index is not None and len(right.dims) == 2 and rows == index.elements
        return known and left.dims[-1] == right.dims[0] and left.dims[-1] > 1

    for op in step.near(event, after=8) if index else ():  # ops to the matmul: casts and views
        left, right = step.tensor(op), step.tensor(op, 1)
        if left and right and step.name(op) in FIRST and chosen(left, right):
            sizes = [{each.elements for each in step.tensors(at)} for at in passed]
            pairs = zip(passed, sizes, strict=True)
            kept = [at for at, read in pairs if at == event or left.elements in read]
            return [*kept, op], left, right
        passed.append(op)
    return None


def _index(step: Step, group: Group, speed: Speed) -> GraphChange:
    ops, left, right = group
    rows, width = step.below(ops), right.dims[1]
    size = (right.bytes or 0) / max(right.elements, 1) * width
    moved = 2 * size * left.elements / left.dims[-1]
    launching = [at for at, op in enumerate(ops) if len(step.below([op]))]
    kept = min(launching, key=lambda at: int(step.trace.host.length[ops[at]]), default=0)
    events, ns = np.array(ops, np.int64), step.memory_ns(speed, moved)
    forward = step.one_for_many(events, rows, ns, (kept,))
    behind = step.below(step.backward(ops[-1:]))
    if not len(behind):
        return forward
    ns = step.memory_ns(speed, (right.bytes or 0) + 2 * moved)
    return joined([forward, step.one_kernel(behind, ns)])
