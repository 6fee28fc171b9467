"""The largest elements with topk instead of a full sort.

What it looks for: `sort` or `argsort`, and after it a slice of what it made.

What must hold: every op within reach that reads a tensor of the sort's shape and type is such a
slice, and the slices keep at most a quarter of the sorted dimension.

What changes: the kernels of the sort become those of topk, which reads its input a few times and
sorts only what it keeps. The host time of the first op stays. On a CPU a fifth of the sort remains,
at worst half (32 rows of 20,000 elements: 49 to 3 ms).
"""

from __future__ import annotations

from foretrace.base.units import plural
from foretrace.look.fixes._changes import Speed, at_speeds, joined
from foretrace.look.fixes._cpu import CpuStep
from foretrace.look.fixes._step import GraphChange, Proposal, Proposals, Step, fix, shown
from foretrace.work.costs import OpCall, Tensor

SORTS = ("aten::sort", "aten::argsort")
SLICES = frozenset({"aten::slice", "aten::narrow", "aten::select"})
SHAPELESS = frozenset({"aten::detach", "aten::unbind"})
MOST = 0.25  # of the sorted dimension
PASSES = 6.0  # of topk over its input, as radix select makes them
LEAST_NS = 12_000  # the small kernels of topk
ON_CPU = (0.8, 0.95, 0.5)  # of the time goes


@fix("topk instead of a full sort", "gpu shapes", steps="any")
def _find(step: Step) -> Proposals:
    sorts: dict[int, int] = {}  # how many elements of the sorted dimension slices read
    for event in step.ops(*SORTS).tolist():
        tensor = step.tensor(event)
        calls = map(step.call, step.near(event, after=6))  # ops after the sort
        sizes = [_kept(call, tensor) for call in calls] if tensor and tensor.dims else []
        read = [size for size in sizes if size is not None]
        if tensor and read and min(read) > 0 and max(read) <= MOST * max(tensor.dims):
            sorts[event] = max(read)
    if not sorts:
        return
    first, kept = next(iter(sorts.items()))
    tensor = step.tensor(first)
    size = max(tensor.dims) if tensor else 0
    why = f"{plural(len(sorts), 'sort')} per step of {size} elements of which {kept} are read"
    order = f"use torch.topk(x, {kept}) instead of the sort"
    if isinstance(step, CpuStep):
        yield step.proposal(order, why, [*sorts], ON_CPU)
        return

    def topk(event: int, speed: Speed) -> GraphChange:
        rows, tensor = step.below([event]), step.tensor(event)
        if not len(rows) or tensor is None or tensor.bytes is None:
            return GraphChange()
        return step.one_kernel(rows, LEAST_NS + step.memory_ns(speed, PASSES * tensor.bytes))

    changes = at_speeds(lambda speed: joined(topk(event, speed) for event in sorts))
    yield Proposal(order, why, *changes, events=shown([*sorts]))


def _kept(call: OpCall, made: Tensor) -> int | None:
    """What this op keeps of a sort's result; None where it does not read it, 0 for all of it."""
    tensors = [each for each in call.every_tensor() if each.dims == made.dims]
    if not tensors or call.name in SHAPELESS:
        return None
    if call.name not in SLICES:
        return 0
    if call.name == "aten::select":
        return 1
    dim, start, end = (call.integer(at) for at in (1, 2, 3))
    if dim is None or end is None:
        return 0
    size = max(made.dims[dim % len(made.dims)], 1)
    if call.name == "aten::narrow":
        return end
    first = 0 if start is None else start % size if start < 0 else start
    return max(min(end, size) - first, 0) if end >= 0 else 0
