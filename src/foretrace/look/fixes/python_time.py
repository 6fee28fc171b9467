"""Move Python out of the step, or vectorize it.

What it looks for: stretches of at least 0.5 ms in which the host runs no op and no call: plain
Python, NumPy, tokenizing, logging. The ranges of the DataLoader and of optimizers do not count.

What must hold: each stretch takes a twentieth of the step, all take a tenth, and they come after
the same op in at least half of the other steps. A pause of the garbage collector, or of another
thread of Python, comes anywhere. On a CPU stretches around the `empty` of a `torch.tensor` call are
its own: it walks through Python's numbers twice. What Python runs in others is not in the trace,
unless stacks were recorded.

What changes: the stretches go. At worst a third remains: what replaces them costs something too.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.units import percent_text, plural
from foretrace.look.fixes._changes import Stretches
from foretrace.look.fixes._host import pauses, tops
from foretrace.look.fixes._step import GraphChange, Proposal, Proposals, Step, fix
from foretrace.trace.spans import Span

LEAST, EACH = 0.1, 0.05
REMAINS = 1 / 3
COVERS = 0.7  # a function that has this much of the longest stretch
LISTS = ("aten::to", "aten::lift_fresh")  # of torch.tensor(), after the numbers are copied
WALKS = 2.0  # times that: what it takes at most to find their type and number


@fix("Move Python out of the step", "gpu", steps="any")
def _find(step: Step) -> Proposals:
    found = _usual(step)
    if step.on_cpu:
        lists = tuple(each for each in found if _makes_tensor(step, each, found))
        share, found = _share(step, lists), tuple(each for each in found if each not in lists)
        if share >= LEAST:
            why = f"torch.tensor() of Python's numbers takes {percent_text(share)} of the step"
            order = "make the tensor once, or of a NumPy array (torch.from_numpy)"
            yield _proposal(order, why, lists)
    share = _share(step, found)
    if share >= LEAST:
        host, (start, end) = step.trace.host, max(found, key=lambda each: each[1] - each[0])
        rows = np.flatnonzero(host.is_kind("python_function") & step.inside)
        shared = np.minimum(host.end[rows], end) - np.maximum(host.start[rows], start)
        rows = rows[(shared >= COVERS * (end - start)) & (host.start[rows] >= start)]
        function = step.name(int(rows[np.argmax(host.depth[rows])])) if len(rows) else ""
        where = f": {function.rpartition('/')[2][:30]}" if function else ""
        times = plural(len(found), "stretch", "stretches")
        why = f"no op runs in {percent_text(share)} of the step ({times}{where})"
        yield _proposal("move this Python out of the step, or vectorize it", why, found)


def _makes_tensor(step: Step, stretch: tuple[int, int], found: Stretches) -> bool:
    """Whether `torch.tensor` takes this time for Python's numbers: it copies them before `LISTS`,
    and looks at them before the `empty` ahead of that.
    """
    ops, host = tops(step), step.trace.host
    after = ops[host.start[ops] >= stretch[1]][: len(LISTS)].tolist()
    if tuple(step.name(op) for op in after) == LISTS:
        return True
    copied = [each for each in found if after and each[0] == host.end[after[0]]]
    return any(
        stretch[1] - stretch[0] <= WALKS * (each[1] - each[0]) and _makes_tensor(step, each, ())
        for each in copied
    )


def _proposal(order: str, why: str, found: Stretches) -> Proposal:
    worst = GraphChange(removed=found, left=REMAINS)
    return Proposal(order, why, GraphChange(removed=found), worst=worst)


def _share(step: Step, found: Stretches) -> float:
    return sum(end - start for start, end in found) / max(step.span.cpu_ns, 1)


def _usual(step: Step) -> Stretches:
    """The stretches of this step that most other steps have after the same op."""
    least = EACH * step.span.cpu_ns
    found = [each for each in pauses(step) if each[1] - each[0] >= least]
    steps = [each for each in step.trace.spans.steps if each.start_ns != step.span.start_ns]
    if not found or not steps:
        return ()
    spans = steps[:8]  # other steps
    others = [{_before(step, each, span) for each in pauses(step, span)} for span in spans]
    seen = [sum(_before(step, each, step.span) in other for other in others) for each in found]
    return tuple(each for each, count in zip(found, seen, strict=True) if 2 * count >= len(others))


def _before(step: Step, stretch: tuple[int, int], span: Span) -> tuple[str, int]:
    """The name of the op that began last before a stretch, and on a CPU its place: a loop over
    elements runs one op everywhere, and other processes take the core anywhere.
    """
    host = step.trace.host
    rows = np.flatnonzero(host.is_op & host.lasting & (host.start < stretch[0]))
    if not len(rows):
        return "", 0
    last = int(rows[np.argmax(host.start[rows])])
    equal = host.name[rows] == host.name[last]
    place = int((equal & (host.start[rows] >= span.start_ns)).sum()) if step.on_cpu else 0
    return step.name(last), place
