"""A matmul with one-hot rows instead of atomics that collide.

What it looks for: `index_add`, `scatter_add`, `scatter_reduce` or `index_put` with `accumulate`
that add many rows to few. Atomic additions to one address run one after the other.

What must hold: the result has at most 256 rows, each gets at least 64 on average, and the kernel
takes at least twice the time of its bytes. Then a matmul with a one-hot factor adds faster.

What changes: the op becomes `one_hot(index).to(dtype).T @ source`. The one-hot tensor is filled (in
int64), converted, and read by the matmul together with the source. The host issues four more ops.
"""

from __future__ import annotations

from msgspec import Struct

from foretrace.analyze.fixes._changes import STARTING_NS, Speed, at_speeds, joined
from foretrace.analyze.fixes._step import GraphChange, Proposal, Proposals, Step, fix, shown
from foretrace.analyze.rules._seen import bare
from foretrace.base.units import plural

# The places of the target and of the source among the arguments.
ADDING = {
    "aten::index_add_": (0, 3), "aten::index_add": (0, 3), "aten::scatter_add_": (0, 3),
    "aten::scatter_add": (0, 3), "aten::scatter_reduce_": (0, 3), "aten::scatter_reduce": (0, 3),
    "aten::index_put_": (0, 2), "aten::_index_put_impl_": (0, 2),
}  # fmt: skip
ACCUMULATE = 3  # the argument of index_put_
MOST_ROWS = 256
FEWEST_EACH = 64
SLOWER = 2.0  # than its bytes at the bandwidth
INDEX_BYTES = 8 + 8 + 4 + 4  # of a one-hot element: filled, read, converted, read
SKINNY = 0.6  # of the bandwidth that other kernels reach
LONGER = 5.0  # what the host takes: one_hot, a cast, a transpose and a matmul for one op


class RowAdds(Struct, frozen=True):
    """One op that adds `many` rows to `few`, in bytes `size` of the source."""

    event: int
    few: int
    many: int
    size: float
    flops: float


@fix("A matmul instead of colliding atomics", "gpu shapes")
def _find(step: Step) -> Proposals:
    found = [each for event in step.ops(*ADDING).tolist() if (each := _colliding(step, event))]
    if not found:
        return
    first, name = found[0], bare(step.name(found[0].event))
    count = plural(len(found), name, name)
    why = f"{count} per step: atomics of {first.many} rows collide in {first.few}"

    def matmul(added: RowAdds, speed: Speed) -> GraphChange:
        one_hot = 2 * STARTING_NS + step.memory_ns(speed, added.few * added.many * INDEX_BYTES)
        product = step.memory_ns(speed, added.size / SKINNY)
        work = step.arithmetic_ns(speed.matmul, added.flops, "fp32", False)
        kernel = step.one_kernel(step.below([added.event]), one_hot + max(product, work))
        return joined([kernel, GraphChange(removed=step.stretches([added.event]))])

    changes = at_speeds(lambda speed: joined((matmul(each, speed) for each in found), LONGER))
    order = "add with a matmul: F.one_hot(index, n).to(x.dtype).T @ x"
    risk = "the sum runs in another order: compare the result"
    events = shown([each.event for each in found])
    yield Proposal(order, why, *changes, risk=risk, events=events)


def _colliding(step: Step, event: int) -> RowAdds | None:
    """What is added, where it is worth a matmul."""
    call, rows = step.call(event), step.below([event])
    puts = "index_put" in call.name
    target, source = (call.tensor(at) for at in ADDING[call.name])
    if not len(rows) or not target or not source or not target.dims or not target.elements:
        return None
    dim = 0 if puts else (call.integer(1) or 0)
    adds = not puts or call.flag(ACCUMULATE) is True
    if not adds or not -len(target.dims) <= dim < len(target.dims):
        return None
    few, width = target.dims[dim], target.elements // target.dims[dim]
    many, size = source.elements // max(width, 1), float(source.bytes or 0)
    fits = few <= MOST_ROWS and many >= FEWEST_EACH * few
    slow = step.ns(rows) > SLOWER * step.move_ns(size)
    return RowAdds(event, few, many, size, 2.0 * few * source.elements) if fits and slow else None
