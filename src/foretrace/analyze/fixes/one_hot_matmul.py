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

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._gpu import (
    Speed,
    at_speeds,
    joined,
    memory_ns,
    one_for_many,
    one_kernel,
)
from foretrace.analyze.fixes._step import Step
from foretrace.analyze.rules.misaligned_matmuls import FIRST
from foretrace.base.units import plural
from foretrace.model.costs import Tensor
from foretrace.model.replay import GraphChange

Group = tuple[list[int], Tensor, Tensor]
REACH = 8  # ops to the matmul: casts and views


def _find(step: Step) -> Iterator[Proposal]:
    found = [
        group for event in step.ops("aten::one_hot").tolist() if (group := _group(step, event))
    ]
    if not found:
        return
    classes = found[0][2].dims[0]
    why = f"{plural(len(found), 'matmul')} per step with one-hot rows of {classes} columns"
    changes = at_speeds(lambda speed: joined(_index(step, group, speed) for group in found))
    events = tuple(event for ops, *_ in found for event in ops)[:50]
    yield Proposal("index the table: F.embedding(index, table)", why, *changes, events=events)


def _group(step: Step, event: int) -> Group | None:
    """The ops from this one_hot to its matmul, with the factors of that."""
    index, passed = step.tensor(event), [event]
    for op in step.near(event, after=REACH) if index else ():
        left, right = step.tensor(op), step.tensor(op, 1)
        fits = index and left and right and _chosen(index, left, right)
        if left and right and fits and step.name(op) in FIRST:
            kept = [each for each in passed if each == event or _takes(step, each, left)]
            return [*kept, op], left, right
        passed.append(op)
    return None


def _takes(step: Step, event: int, rows: Tensor) -> bool:
    """Whether an op reads a tensor of as many elements."""
    return any(each.elements == rows.elements for each in step.tensors(event))


def _chosen(index: Tensor, left: Tensor, right: Tensor) -> bool:
    """Whether the left factor can be the one-hot rows of this index."""
    rows = left.elements // max(left.dims[-1], 1) if left.dims else 0
    known = len(right.dims) == 2 and rows == index.elements
    return known and left.dims[-1] == right.dims[0] and left.dims[-1] > 1


def _index(step: Step, group: Group, speed: Speed) -> GraphChange:
    ops, left, right = group
    events = np.array(ops, np.int64)
    rows, width = step.below(events), right.dims[1]
    size = (right.bytes or 0) / max(right.elements, 1) * width
    moved = 2 * size * left.elements / left.dims[-1]
    launching = [at for at in range(len(ops)) if len(step.below(events[at : at + 1]))]
    kept = min(launching, key=lambda at: int(step.trace.host.length[ops[at]]), default=0)
    forward = one_for_many(step, events, rows, memory_ns(step, speed, moved), (kept,))
    behind = step.below(step.backward(events[-1:]))
    if not len(behind):
        return forward
    ns = memory_ns(step, speed, (right.bytes or 0) + 2 * moved)
    return joined([forward, one_kernel(step, behind, ns)])


FIX = Fix("one_hot_matmul", "An index, not a product with one-hot rows", _find, ("gpu", "shapes"))
