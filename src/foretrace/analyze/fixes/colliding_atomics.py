"""A matmul with one-hot rows instead of atomics that collide.

What it looks for: `index_add`, `scatter_add`, `scatter_reduce` or `index_put` with `accumulate`
that add many rows to few. Atomic additions to one address run one after the other.

What must hold: the result has at most 256 rows, each gets at least 64 on average, and the kernel
takes at least twice the time of its bytes. Then a matmul with a one-hot factor adds faster.

What changes: the op becomes `one_hot(index).to(dtype).T @ source`. The one-hot tensor is filled (in
int64), converted, and read by the matmul together with the source. The host issues four more ops.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._gpu import (
    STARTING_NS,
    Speed,
    arithmetic_ns,
    at_speeds,
    joined,
    memory_ns,
    one_kernel,
)
from foretrace.analyze.fixes._step import Step
from foretrace.base.units import plural
from foretrace.model.costs import OpCall
from foretrace.model.replay import GraphChange

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


def _find(step: Step) -> Iterator[Proposal]:
    found = [each for event in step.ops(*ADDING).tolist() if (each := _colliding(step, event))]
    if not found:
        return
    first = found[0]
    name = step.name(first.event).removeprefix("aten::")
    count = plural(len(found), name, name)
    why = f"{count} per step: atomics of {first.many} rows collide in {first.few}"
    changes = at_speeds(
        lambda speed: joined((_matmul(step, each, speed) for each in found), LONGER)
    )
    order = "add with a matmul: F.one_hot(index, n).to(x.dtype).T @ x"
    risk = "the sum runs in another order: compare the result"
    events = tuple(each.event for each in found)[:50]
    yield Proposal(order, why, *changes, risk=risk, events=events)


def _colliding(step: Step, event: int) -> RowAdds | None:
    """What is added, where it is worth a matmul."""
    call, rows = step.call(event), step.below([event])
    added = _added(call, event) if call else None
    if added is None or not len(rows):
        return None
    fits = added.few <= MOST_ROWS and added.many >= FEWEST_EACH * added.few
    return added if fits and step.ns(rows) > SLOWER * step.move_ns(added.size) else None


def _added(call: OpCall, event: int) -> RowAdds | None:
    if "index_put" in call.name and call.flag(ACCUMULATE) is not True:
        return None
    target, source = (call.tensor(at) for at in ADDING[call.name])
    if not target or not source or not target.dims or not target.elements:
        return None
    dim = 0 if "index_put" in call.name else (call.integer(1) or 0)
    if not -len(target.dims) <= dim < len(target.dims):
        return None
    few, width = target.dims[dim], target.elements // target.dims[dim]
    many = source.elements // max(width, 1)
    flops = 2.0 * few * source.elements
    return RowAdds(event, few, many, float(source.bytes or 0), flops)


def _matmul(step: Step, added: RowAdds, speed: Speed) -> GraphChange:
    one_hot = 2 * STARTING_NS + memory_ns(step, speed, added.few * added.many * INDEX_BYTES)
    product = memory_ns(step, speed, added.size / SKINNY)
    work = arithmetic_ns(step, speed.matmul, added.flops, "fp32", False)
    kernel = one_kernel(step, step.below([added.event]), one_hot + max(product, work))
    return joined([kernel, GraphChange(removed=step.stretches([added.event]))])


FIX = Fix("colliding_atomics", "A matmul instead of colliding atomics", _find, ("gpu", "shapes"))
