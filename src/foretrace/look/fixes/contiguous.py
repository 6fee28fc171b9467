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

from foretrace.base.units import plural
from foretrace.look.fixes._cpu import CpuStep
from foretrace.look.fixes._step import GraphChange, Ints, Proposal, Proposals, Step, fix

CONTIGUOUS = "aten::contiguous"
MATMULS = frozenset({"aten::mm", "aten::bmm", "aten::matmul", "aten::linear", "aten::addmm"})
ATTENTION = "aten::scaled_dot_product_attention"
NEXT = 4  # ops behind the copy among which its reader must be: keys and values are copied too
ON_CPU = (0.8, 1.0, 0.3)  # of the copy's time goes


@fix("Leave out copies of strided tensors", "gpu shapes", steps="any")
def _find(step: Step) -> Proposals:
    if isinstance(step, CpuStep):
        working = step.computing[step.named({"aten::copy_"})[step.computing]]
    else:
        working = step.trace.gpu.launch[step.rows]
    # the calls of `.contiguous()` that copy and can go
    ops = step.outermost(step.inside & step.trace.host.is_op)
    copying = set(step.trace.host.nearest(working, step.named({CONTIGUOUS})).tolist())
    readers = {
        event: reader
        for place, event in enumerate(ops.tolist())
        if event in copying and (reader := _reader(step, event, ops[place + 1 :]))
    }
    if not readers:
        return
    order = f"drop .contiguous() before {min(readers.values()).removeprefix('aten::')}"
    count, them = plural(len(readers), "copy", "copies"), "them" if len(readers) > 1 else "it"
    why = f"{count} per step, and the op behind {them} takes strides"
    if isinstance(step, CpuStep):
        yield step.proposal(order, why, [*readers], ON_CPU)
        return
    rows, removed = step.below([*readers]), step.with_gaps(np.array([*readers], np.int64))
    change = GraphChange(removed, gone=frozenset(rows.tolist()))
    worst = GraphChange(removed, length=step.shorter(rows, 0.5).length)
    yield Proposal(order, why, change, worst=worst, events=step.events(rows))


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
