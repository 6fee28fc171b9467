"""Make a small constant once, on the GPU.

What it looks for: a tensor of a few kilobytes that the host makes (`torch.tensor(list)`) and copies
to the GPU, several times in a step.

What must hold: at least three copies of the same size in one step, each of at most 64 kB, from
pageable memory or with a wait. One copy per step may be new data, and so may copies from pinned
memory that nothing waits for.

What changes: the copies go, with their waits, and so do the ops right before and after that make
the tensor on the host, with the Python around them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._host import copies, tops, waited
from foretrace.analyze.fixes._step import Step, Stretches
from foretrace.base.arrays import distinct
from foretrace.base.units import bytes_text, plural
from foretrace.model.intervals import Ints
from foretrace.model.replay import GraphChange

SMALL = 65_536
REPEATED = 3
_MAKING = "empty lift_fresh detach_ detach to _to_copy fill_ scalar_tensor arange from_numpy alias"
MAKING = frozenset(f"aten::{name}" for name in _MAKING.split()) | {"detach_"}


def _find(step: Step) -> Iterator[Proposal]:
    ops = tops(step)
    rows, callers = _repeated(step)
    callers = callers[np.isin(callers, ops)]
    if len(callers) < REPEATED:
        return
    calls = step.calls_below(callers)
    waits = len(np.intersect1d(calls, step.waiting))
    size = bytes_text(int(np.median(step.trace.gpu.bytes[rows])))
    waiting = f", {plural(waits, 'wait')}" if waits else ""
    change = GraphChange(
        removed=_making(step, ops, callers),
        gone=frozenset(rows.tolist()),
        unwaited=frozenset(calls.tolist()),
    )
    yield Proposal(
        "make this tensor once on the GPU, before the loop",
        f"{len(callers)} copies of {size} from the host per step{waiting}",
        change,
        risk="holds where the values are the same each time",
        events=step.events(rows),
    )


def _repeated(step: Step) -> tuple[Ints, Ints]:
    """Small copies to the GPU of sizes that occur often, and the outermost ops that make them."""
    gpu = step.trace.gpu
    rows, pageable = (copies(step, tops(step), way) for way in ("HtoD", "Pageable"))
    plain = waited(step, distinct(step.makers(gpu.launch[rows])))
    slow = np.isin(rows, pageable) | np.isin(step.makers(gpu.launch[rows]), plain)
    rows = rows[slow & (gpu.bytes[rows] >= 0) & (gpu.bytes[rows] <= SMALL)]
    size, count = np.unique(gpu.bytes[rows], return_counts=True)
    rows = rows[np.isin(gpu.bytes[rows], size[count >= REPEATED])]
    return rows, distinct(step.callers(gpu.launch[rows]))


def _making(step: Step, ops: Ints, callers: Ints) -> Stretches:
    """From the end of the op before the tensor is made to the copy's end or what follows it."""
    host, names = step.trace.host, [step.name(event) for event in ops.tolist()]
    calling, found = set(step.callers(step.graph.calls).tolist()), []
    pairs = zip(ops.tolist(), names, strict=True)
    makes = [name in MAKING and op not in calling for op, name in pairs]
    for at in np.flatnonzero(np.isin(ops, callers)).tolist():
        first = last = at
        while first > 0 and makes[first - 1]:
            first -= 1
        while last + 1 < len(ops) and names[last + 1] in {"aten::lift_fresh", "aten::detach_"}:
            last += 1
        begin = int(host.end[ops[first - 1]]) if first else step.span.start_ns
        found.append((max(begin, step.span.start_ns), int(host.end[ops[last]])))
    return tuple(found)


FIX = Fix("small_copies", "Make a small constant once, on the GPU", _find, ("gpu",))
