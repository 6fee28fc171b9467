"""Collect parts in a list, and join them once.

What it looks for: at least 8 calls of `torch.cat` in a step of a CPU, each of which takes what the
one before it made, and adds to it.

What must hold: the first tensor of a call has as many elements as all tensors of the call before.

What changes: all calls but the last go, which copies everything once.
"""

from __future__ import annotations

from foretrace.look.fixes._cpu import CpuStep
from foretrace.look.fixes._step import Proposals, fix


@fix("Join parts once", steps="cpu")
def _find(step: CpuStep) -> Proposals:
    made, chain, best = -1, list[int](), list[int]()
    for event in step.ops("aten::cat").tolist():
        sizes = [each.elements for each in step.tensors(event)]
        grows = len(sizes) > 1 and sizes[0] == made
        chain, made = chain if grows else [], sum(sizes)
        chain.append(event)
        best = max(best, chain, key=len)
    if len(best) >= 8:
        why = f"{len(best)} torch.cat per step, and each copies what the one before it made"
        order = "append the parts to a list, and torch.cat(parts) once"
        gone = 1 - step.took_ns(best[-1:]) / step.took_ns(best)
        yield step.proposal(order, why, best, (gone, gone, gone / 2))
