"""Write a boolean mask with torch.where.

What it looks for: `x[mask]`, `x[mask] = y` and `masked_select` on the GPU. How many elements they
select is known on the GPU only, so `nonzero` makes the host wait for it.

What must hold: `nonzero` runs below the op that indexes, and waits. Indices that are numbers do not
need it.

What changes: the waits and the kernels of `nonzero` go. A read whose result is written back with a
mask of the same shape goes too, with the clone of the tensor right before it; what runs between
them works on all rows, not on those selected. The write, or a read alone, becomes one pointwise op
that passes over the whole tensor.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.units import plural
from foretrace.look.fixes._changes import both
from foretrace.look.fixes._host import tops, waited
from foretrace.look.fixes._step import GraphChange, Proposal, Proposals, Step, fix, shown

READS = ("aten::index", "aten::masked_select")
WRITES = ("aten::index_put_", "aten::index_put", "aten::_index_put_impl_")
NONZERO = "aten::nonzero"
MEMORY, SHORTEST_NS = 0.8, 2_000.0
RISK = "with torch.where all rows are computed, not only those selected"


@fix("Write a boolean mask with torch.where", "gpu")
def _find(step: Step) -> Proposals:
    # ops that index with a mask, for which the host waits in `nonzero`
    inner, events = waited(step, step.ops(NONZERO)), step.ops(*READS, *WRITES)
    events = events[np.isin(events, step.trace.host.nearest(inner, step.marked(events)))]
    if not len(events):
        return
    # each write with the read before it, where both have a mask of the same shape
    pairs, last = list[tuple[int, int]](), -1
    for event in events.tolist():
        write = step.name(event) in WRITES
        if write and last >= 0 and _mask(step, last) == _mask(step, event) != ():
            pairs.append((last, event))
        last = -1 if write else event
    waits = step.waits_below(events)
    change = GraphChange(gone=frozenset(step.below(step.ops(NONZERO)).tolist()), unwaited=waits)
    for read, written in pairs:
        change = both(change, _without(step, read, written))
    for event in events[~np.isin(events, [read for read, _ in pairs])].tolist():
        ((start, end),) = step.stretches([event])
        removed = ((min(start + step.plain_ns, end), end),)
        rows = [row for row in step.below([event]).tolist() if row not in change.gone]
        tensor = step.tensor(event)
        if not rows or tensor is None or not step.device:
            pointwise = GraphChange(removed)
        else:
            ns = max(step.move_ns(3 * (tensor.bytes or 0)) / MEMORY, SHORTEST_NS)
            pointwise = GraphChange(removed, length={rows[-1]: ns}, gone=frozenset(rows[:-1]))
        change = both(change, pointwise)
    order = "write the mask with torch.where(mask, new, x)" if pairs else "torch.where, not x[mask]"
    why = f"{plural(len(waits), 'wait')} per step for nonzero(), which sizes x[mask]"
    yield Proposal(order, why, change, risk=RISK, events=shown(events))


def _mask(step: Step, event: int) -> tuple[int, ...]:
    """The shape of the mask: what `nonzero` looks at."""
    host, inner = step.trace.host, step.ops(NONZERO)
    mine = inner[(host.start[inner] >= host.start[event]) & (host.end[inner] <= host.end[event])]
    mask = step.tensor(int(mine[0])) if len(mine) else None
    return tuple(mask.dims) if mask else ()


def _without(step: Step, read: int, write: int) -> GraphChange:
    """Without the read, and the clone and Python before it; what follows works on all rows."""
    host, ops, values = step.trace.host, tops(step), step.tensor(read)
    # the clone of the whole tensor right before a read: torch.where makes a new tensor
    before = ops[host.start[ops] < host.start[read]][-1:].tolist()
    cloned = [step.tensor(op) for op in before if step.name(op) == "aten::clone"]
    same = values and any(each and each.dims == values.dims for each in cloned)
    away = [*before, read] if same else [read]
    before = ops[host.end[ops] <= host.start[away[0]]]
    begin = int(host.end[before[-1]]) if len(before) else int(host.start[away[0]])
    # kernels between a read and its write, on all rows
    mine = ops[(host.start[ops] >= host.end[read]) & (host.end[ops] <= host.start[write])]
    values, every = step.tensor(write, 2), float(np.prod(_mask(step, write)))
    ratio = every / values.dims[0] if values and values.dims and values.dims[0] else 1.0
    longer = step.shorter(step.below(mine).tolist(), max(ratio, 1.0)).length
    gone = frozenset(step.below(away).tolist())
    return GraphChange(((begin, int(host.end[read])),), length=longer, gone=gone)
