"""Move Python out of the step, or vectorize it.

What it looks for: stretches of at least 0.5 ms in which the host runs no op and no call: plain
Python, NumPy, tokenizing, logging. The ranges of the DataLoader and of optimizers do not count.

What must hold: each stretch takes a twentieth of the step, all take a tenth, and they come after
the same op in at least half of the other steps. A pause of the garbage collector, or of another
thread of Python, comes anywhere.

What changes: the stretches go. At worst a third remains: what replaces them costs something too.
"""

from __future__ import annotations

import numpy as np

from foretrace.analyze.fixes._changes import Stretches
from foretrace.analyze.fixes._host import pauses
from foretrace.analyze.fixes._step import GraphChange, Proposal, Proposals, Step, fix
from foretrace.base.units import percent_text, plural

LEAST, EACH = 0.1, 0.05
REMAINS = 1 / 3
LOOKED_AT = 8  # other steps
COVERS = 0.7  # a function that has this much of the longest stretch


@fix("Move Python out of the step", "gpu")
def _find(step: Step) -> Proposals:
    found = _usual(step)
    share = sum(end - start for start, end in found) / max(step.span.cpu_ns, 1)
    if share < LEAST:
        return
    where = _function(step, max(found, key=lambda each: each[1] - each[0]))
    times = plural(len(found), "stretch", "stretches")
    yield Proposal(
        "move this Python out of the step, or vectorize it",
        f"no op runs in {percent_text(share)} of the step ({times}{where})",
        GraphChange(removed=found),
        worst=GraphChange(removed=found, left=REMAINS),
    )


def _usual(step: Step) -> Stretches:
    """The stretches of this step that most other steps have after the same op."""
    least = EACH * step.span.cpu_ns
    found = [each for each in pauses(step) if each[1] - each[0] >= least]
    steps = [each for each in step.trace.spans.steps if each.start_ns != step.span.start_ns]
    if not found or not steps:
        return ()
    others = [{_before(step, each) for each in pauses(step, span)} for span in steps[:LOOKED_AT]]
    seen = [sum(_before(step, each) in other for other in others) for each in found]
    return tuple(each for each, count in zip(found, seen, strict=True) if 2 * count >= len(others))


def _before(step: Step, stretch: tuple[int, int]) -> str:
    """The name of the op that began last before a stretch."""
    host = step.trace.host
    rows = np.flatnonzero(host.is_op & host.lasting & (host.start < stretch[0]))
    return step.name(int(rows[np.argmax(host.start[rows])])) if len(rows) else ""


def _function(step: Step, stretch: tuple[int, int]) -> str:
    """The innermost Python function with most of a stretch, where functions were recorded."""
    host, (start, end) = step.trace.host, stretch
    rows = np.flatnonzero(host.is_kind("python_function") & step.inside)
    shared = np.minimum(host.end[rows], end) - np.maximum(host.start[rows], start)
    rows = rows[(shared >= COVERS * (end - start)) & (host.start[rows] >= start)]
    if not len(rows):
        return ""
    return f": {step.name(int(rows[np.argmax(host.depth[rows])])).rpartition('/')[2][:30]}"
