"""A cache of keys and values that is written in place.

What it looks for: `torch.cat` of a long tensor and a short one, at least 4 to 1 in the dimension
that grows, whose result is a factor of the attention (or batched matmul) that follows.

What must hold: the two differ in this dimension alone, and in a step or over the step's calls the
same cat runs for keys and for values.

What changes: the copy of the whole cache becomes a write of the short part into a tensor that was
made once, long enough. The host time stays: a slice and a copy.
"""

from __future__ import annotations

from foretrace.base.units import plural
from foretrace.look.fixes._changes import Speed, at_speeds, joined
from foretrace.look.fixes._step import GraphChange, Proposal, Proposals, Step, fix, shown
from foretrace.work.costs import OpCall

_READERS = "scaled_dot_product_attention matmul bmm baddbmm einsum"
READERS = frozenset(f"aten::{name}" for name in _READERS.split())
LONGER = 4  # times the part that is new


@fix("A cache that is written in place", "gpu shapes")
def _find(step: Step) -> Proposals:
    cats = [event for event in step.ops("aten::cat").tolist() if _grows(step, event)]
    if len(cats) < 2:  # keys and values
        return
    changes = at_speeds(lambda speed: joined(_in_place(step, event, speed) for event in cats))
    why = f"{plural(len(cats), 'torch.cat', 'torch.cat')} per step copy a cache to add a token"
    order = "write into a preallocated cache: cache[:, :, t] = k"
    yield Proposal(order, why, *changes, events=shown(cats))


def _in_place(step: Step, event: int, speed: Speed) -> GraphChange:
    """A write of the part that is new."""
    rows, parts = step.below([event]), step.call(event).tensors(0)
    if not len(rows) or not parts:
        return GraphChange()
    share = parts[1].elements / max(parts[0].elements + parts[1].elements, 1)
    moved = share * step.total(rows, lambda case: case.bytes)
    return step.one_kernel(rows, step.memory_ns(speed, moved))


def _grows(step: Step, event: int) -> bool:
    """Whether this cat adds little to much, for an attention."""
    made = grown(step.call(event))

    def can_be(dims: tuple[int, ...]) -> bool:
        """Whether these can be one tensor, transposed or with heads and batch in one dimension."""
        flat = len(dims) == 3 and sorted(dims[-2:]) == sorted((made or ())[-2:])
        return flat or sorted(dims) == sorted(made or ())

    near = step.near(event, after=16) if made else []
    readers = (op for op in near if step.name(op) in READERS)
    return any(can_be(each.dims) for op in readers for each in step.tensors(op))


def grown(call: OpCall) -> tuple[int, ...] | None:
    """The shape that a cat makes of one long and one short tensor; None for any other."""
    parts = call.tensors(0)
    if not parts or len(parts) != 2 or len(parts[0].dims) != len(parts[1].dims):
        return None
    long, short = (each.dims for each in parts)
    differs = [at for at, (one, two) in enumerate(zip(long, short, strict=True)) if one != two]
    if len(differs) != 1 or len(long) < 3 or long[differs[0]] < LONGER * short[differs[0]]:
        return None
    at = differs[0]
    return (*long[:at], long[at] + short[at], *long[at + 1 :])
