"""A linear layer at the positions that are read, not at all of them.

What it looks for: `linear` over a sequence, often the one that gives the scores of every word, and
after it a slice that keeps a few positions of its result (`logits[:, -1]`).

What must hold: until the step ends, every op of the forward pass that reads a tensor of the
result's shape is such a slice. All take the same dimension, not that of the features, and keep at
most a quarter of it.

What changes: of the layer and of its backward pass, the share of the positions that are read
remains. At worst half of the gain is lost to a matmul of few rows.

When it is wrong: a program that keeps the whole result for later steps, and reads it there.
"""

from __future__ import annotations

import math

from foretrace.base.units import plural
from foretrace.look.fixes._cpu import CpuStep
from foretrace.look.fixes._step import Proposal, Proposals, Step, fix
from foretrace.work.costs import OpCall

Kept = tuple[int, int]  # the positions that are read, and all of them
Shape = tuple[int, ...]
Slice = tuple[int, int]  # the dimension, and how much of it is kept
SLICES = frozenset({"aten::slice", "aten::narrow", "aten::select"})
LEAST = 1_000_000  # elements of the result: less is soon computed
ORDER = "slice before the linear layer, as in head(x[:, -1:])"


@fix("A linear layer at the positions that are read", "gpu shapes", steps="any")
def _find(step: Step) -> Proposals:
    sizes = {event: _result(step.call(event)) for event in step.ops("aten::linear").tolist()}
    slices = step.outer[step.named(SLICES)[step.outer]].tolist()
    in_part = {given.dims for op in slices if (given := step.tensor(op))}  # few steps have any
    large = [event for event, dims in sizes.items() if math.prod(dims) >= LEAST and dims in in_part]
    readers = _readers(step) if large else {}
    for event in large:
        dims = sizes[event]
        found = _kept(step, event, dims, readers.get(dims, []))
        if found is None:
            continue
        kept, size = found
        positions, left = plural(size, "position"), kept / size
        why = f"linear to {dims[-1]} features at {positions}, of which the step reads {kept}"
        events = [event, *step.backward([event]).tolist()]
        if isinstance(step, CpuStep):
            yield step.proposal(ORDER, why, events, (1 - left, 1 - left, (1 - left) / 2))
            continue
        usual, worst = (step.shorter(step.below(events), share) for share in (left, (1 + left) / 2))
        yield Proposal(ORDER, why, usual, worst=worst, events=(event,))


def _readers(step: Step) -> dict[Shape, list[int]]:
    """The outermost ops of the forward pass that read a tensor of each shape, in order of time."""
    readers: dict[Shape, list[int]] = {}
    backward = step.trace.host.nearest(step.outer, step.nodes.is_node[: step.trace.host.count])
    for op in step.outer[backward < 0].tolist():
        for dims in {each.dims for each in step.tensors(op)}:
            readers.setdefault(dims, []).append(op)
    return readers


def _result(call: OpCall) -> Shape:
    """The shape that a linear layer gives; empty where it is not known or has no positions."""
    given, weight = call.tensor(0), call.tensor(1)
    if given is None or weight is None or len(given.dims) < 3 or len(weight.dims) != 2:
        return ()
    return (*given.dims[:-1], weight.dims[0])


def _kept(step: Step, event: int, made: Shape, readers: list[int]) -> Kept | None:
    """How many positions of a layer's result are read, where these are few."""
    later = [op for op in readers if step.trace.host.start[op] >= step.trace.host.end[event]]
    if any(step.name(op) not in SLICES for op in later):
        return None
    slices = [_slice(step.call(op), made) for op in later]
    parts = [each for each in slices if each and each[1] < made[each[0]]]  # [:] is the whole
    dims = {dim for dim, _ in parts}
    if None in slices or len(dims) != 1:
        return None
    size = made[dims.pop()]
    kept = sum(count for _, count in parts)  # several slices may keep different positions
    return (kept, size) if 0 < kept <= 0.25 * size else None  # of the positions


def _slice(call: OpCall, made: Shape) -> Slice | None:
    """What a slice keeps of the result; None for part of the features, or where that is open."""
    dim = call.integer(1)
    if dim is None or dim % len(made) == len(made) - 1:
        return None
    dim, size = dim % len(made), made[dim % len(made)]
    if call.name == "aten::select":
        return dim, 1
    start, end = call.integer(2), call.integer(3)
    if call.name == "aten::narrow":
        return None if end is None else (dim, end)
    first = 0 if start is None else max(start + size, 0) if start < 0 else min(start, size)
    last = size if end is None else end + size if end < 0 else min(end, size)
    return dim, max(last - first, 0)
