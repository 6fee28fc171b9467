"""A matmul with one-hot rows instead of atomics that collide.

What it looks for: `index_add`, `scatter_add`, `scatter_reduce` or `index_put` with `accumulate`
that add many rows to few. Atomic additions to one address run one after the other.

What must hold: the result has at most 256 rows, each gets at least 64 on average, and the kernel
takes at least twice the time of its bytes. Then a matmul with a one-hot factor adds faster.

What changes: the op becomes `one_hot(index).to(dtype).T @ source`. The one-hot tensor is filled (in
int64), converted, and read by the matmul together with the source. The host issues four more ops.
"""

from __future__ import annotations

from foretrace.base.units import plural
from foretrace.look.fixes._changes import STARTING_NS, Speed, at_speeds, joined
from foretrace.look.fixes._step import GraphChange, Proposal, Proposals, Step, fix, shown
from foretrace.look.rules._seen import bare

# The places of the target and of the source among the arguments.
ADDING = {
    "aten::index_add_": (0, 3), "aten::index_add": (0, 3), "aten::scatter_add_": (0, 3),
    "aten::scatter_add": (0, 3), "aten::scatter_reduce_": (0, 3), "aten::scatter_reduce": (0, 3),
    "aten::index_put_": (0, 2), "aten::_index_put_impl_": (0, 2),
}  # fmt: skip
MOST_ROWS = 256
FEWEST_EACH = 64
INDEX_BYTES = 8 + 8 + 4 + 4  # of a one-hot element: filled, read, converted, read
SKINNY = 0.6  # of the bandwidth that other kernels reach
LONGER = 5.0  # what the host takes: one_hot, a cast, a transpose and a matmul for one op


@fix("A matmul instead of colliding atomics", "gpu shapes")
def _find(step: Step) -> Proposals:
    adds: dict[int, tuple[int, int, float, float]] = {}  # op -> from `many` rows to `few`
    for event in step.ops(*ADDING).tolist():
        call, rows = step.call(event), step.below([event])
        puts = "index_put" in call.name
        target, source = (call.tensor(at) for at in ADDING[call.name])
        if not len(rows) or not target or not source or not target.dims or not target.elements:
            continue
        dim = 0 if puts else (call.integer(1) or 0)
        replaces = puts and call.flag(3) is not True  # the argument `accumulate` of index_put_
        if replaces or not -len(target.dims) <= dim < len(target.dims):
            continue
        few, width = target.dims[dim], target.elements // target.dims[dim]
        many, size = source.elements // max(width, 1), float(source.bytes or 0)
        slow = step.ns(rows) > 2.0 * step.move_ns(size)  # than its bytes at the bandwidth
        if few <= MOST_ROWS and many >= FEWEST_EACH * few and slow:
            adds[event] = few, many, size, 2.0 * few * source.elements
    if not adds:
        return
    first, name = next(iter(adds)), bare(step.name(next(iter(adds))))
    count = plural(len(adds), name, name)
    why = f"{count} per step: atomics of {adds[first][1]} rows collide in {adds[first][0]}"

    def matmul(event: int, speed: Speed) -> GraphChange:
        few, many, size, flops = adds[event]
        one_hot = 2 * STARTING_NS + step.memory_ns(speed, few * many * INDEX_BYTES)
        product = step.memory_ns(speed, size / SKINNY)
        work = step.arithmetic_ns(speed.matmul, flops, "fp32", False)
        kernel = step.one_kernel(step.below([event]), one_hot + max(product, work))
        return joined([kernel, GraphChange(removed=step.stretches([event]))])

    changes = at_speeds(lambda speed: joined((matmul(event, speed) for event in adds), LONGER))
    order = "add with a matmul: F.one_hot(index, n).to(x.dtype).T @ x"
    risk = "the sum runs in another order: compare the result"
    yield Proposal(order, why, *changes, risk=risk, events=shown([*adds]))
