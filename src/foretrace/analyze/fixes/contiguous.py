"""Leave out `.contiguous()` where the next op takes strides.

What it looks for: `.contiguous()` that copies, right before a matmul of two or three dimensions or
fused attention.

What must hold: the strides of the source are recorded, and the next op can take them: one of the
last two dimensions has stride 1 for a matmul, the last one for attention. The next ops take a
tensor of that shape.

What changes: the copy goes, and the host time of the call. What a matmul loses by reading across
the rows is not known; at worst half of the copy's time comes back, on a CPU 70% of it.
"""

from __future__ import annotations

import numpy as np

from foretrace.analyze.fixes._cpu import CpuStep
from foretrace.analyze.fixes._step import GraphChange, Ints, Proposal, Proposals, Step, fix
from foretrace.base.units import plural

CONTIGUOUS = "aten::contiguous"
MATMULS = frozenset({"aten::mm", "aten::bmm", "aten::matmul", "aten::linear", "aten::addmm"})
ATTENTION = "aten::scaled_dot_product_attention"
NEXT = 4  # ops behind the copy among which its reader must be: keys and values are copied too
ON_CPU = (0.8, 1.0, 0.3)  # of the copy's time goes


def _on_cpu(step: CpuStep) -> Proposals:
    events, order, why = _copies(step, step.computing[step.named({"aten::copy_"})[step.computing]])
    if len(events):
        yield step.proposal(order, why, events.tolist(), ON_CPU)


@fix("Leave out copies of strided tensors", "gpu shapes", on_cpu=_on_cpu)
def _find(step: Step) -> Proposals:
    events, order, why = _copies(step, step.trace.gpu.launch[step.rows])
    if not len(events):
        return
    rows, removed = step.below(events), step.with_gaps(events)
    change = GraphChange(removed, gone=frozenset(rows.tolist()))
    worst = GraphChange(removed, length=step.shorter(rows, 0.5).length)
    yield Proposal(order, why, change, worst=worst, events=step.events(rows))


def _copies(step: Step, working: Ints) -> tuple[Ints, str, str]:
    """The calls of `.contiguous()` above these events that can go, what to do, and why."""
    host = step.trace.host
    order = step.outermost(step.inside & host.is_op)
    copying = set(host.nearest(working, step.named({CONTIGUOUS})).tolist())
    readers = {
        event: reader
        for place, event in enumerate(order.tolist())
        if event in copying and (reader := _reader(step, event, order[place + 1 :]))
    }
    before = min(readers.values(), default="").removeprefix("aten::")
    count, them = plural(len(readers), "copy", "copies"), "them" if len(readers) > 1 else "it"
    why = f"{count} per step, and the op behind {them} takes strides"
    return np.array([*readers], np.int64), f"drop .contiguous() before {before}", why


def _reader(step: Step, event: int, behind: Ints) -> str:
    """The op that takes the copied tensor, if it could take the source too; else ""."""
    source = step.tensor(event)
    if source is None or source.strides is None or len(source.strides) != len(source.dims):
        return ""
    others = [each for each in behind[: 4 * NEXT].tolist() if step.name(each) != CONTIGUOUS]
    for each in others[:NEXT]:
        name, taken = step.name(each), [(have.dims, have.type) for have in step.tensors(each)]
        if (source.dims, source.type) in taken:
            matrix = len(source.strides) in (2, 3) and 1 in source.strides[-2:]
            fits = source.strides[-1:] == (1,) if name == ATTENTION else matrix and name in MATMULS
            return name if fits else ""
    return ""
