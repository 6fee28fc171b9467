"""Group rows by their value at once.

What it looks for: on a CPU, at least 16 comparisons of a tensor with numbers that follow each other
(`x == 0`, `x == 1`, ...), each of which selects rows: neighbours of a node, samples of a class,
points of a cluster.

What must hold: all compare tensors of one shape, and the op behind each indexes with a mask.

What changes: `index_add_`, `scatter_reduce` or `bincount` passes over the rows once, whatever the
number of values. Of the rounds four remain, at worst half of their time.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.units import plural, whole
from foretrace.look.fixes._cpu import CpuStep
from foretrace.look.fixes._host import LONG_NS, tops
from foretrace.look.fixes._step import Proposals, fix
from foretrace.trace.intervals import Ints

FEWEST, LEFT = 16, 4
ORDER = "group by value in one op (index_add_, scatter_reduce, bincount)"
RISK = "each round may do no more than reduce its rows"
SELECTS = ("aten::index", "aten::masked_select", "aten::nonzero", "aten::where")


@fix("Group rows by their value at once", steps="cpu")
def _find(step: CpuStep) -> Proposals:
    for masks, ops, size in _rounds(step):
        events = [*ops.tolist(), *step.backward(ops).tolist()]
        count, size_text = len(masks), plural(size, "element")
        why = f"{count} masks per step (x == 0, x == 1, ...), each of {size_text}"
        shares, stretches = (1 - LEFT / count, 1 - 1 / count, 0.5), step.together(events, LONG_NS)
        yield step.proposal(ORDER, why, masks.tolist(), shares, RISK, stretches)


def _rounds(step: CpuStep) -> list[tuple[Ints, Ints, int]]:
    """For each size of a mask: the ops that make masks, all ops of their loops, and the size."""
    ops, found = tops(step), []
    compared = {at: key for at in range(len(ops)) if (key := _compared(step, ops, at))}
    for size in dict.fromkeys(size for size, _ in compared.values()):
        mine = np.array([at for at, (each, _) in compared.items() if each == size], np.int64)
        values = np.array([compared[at][1] for at in mine.tolist()])
        follows = np.flatnonzero(np.diff(values) == 1)
        if len(follows) + 1 < FEWEST:
            continue
        # a round goes on to the next mask; the last of a loop is left out
        parts = [np.arange(mine[at], mine[at + 1]) for at in follows.tolist()]
        masks = np.union1d(mine[follows], mine[follows + 1])
        found.append((ops[masks], ops[np.concatenate(parts)], size))
    return found


def _compared(step: CpuStep, ops: Ints, at: int) -> tuple[int, int] | None:
    """How many elements this op compares with which number, where the next op selects by it."""
    if step.name(int(ops[at])) != "aten::eq" or at + 1 == len(ops):
        return None
    call = step.call(int(ops[at]))
    tensor, value = call.tensor(0), whole(call.concrete[1]) if len(call.concrete) > 1 else None
    selects = step.name(int(ops[at + 1])) in SELECTS
    return (tensor.elements, value) if tensor and value is not None and selects else None
