"""Neighbouring pointwise kernels that could be one.

What it shows: chains of pointwise kernels (casts among them) in which each reads what the one
before has written: how much memory traffic one kernel would avoid, and at most how much time.

Why it matters: such kernels are memory-bound. Every step from one to the next costs a write and a
read of the whole tensor. `torch.compile` fuses these first, and Liger and other hand-written
kernels exist for them.

How it is computed: in launch order on one stream, a kernel links to the next pointwise kernel when
that one has an operand of exactly the size that the first one writes. A matrix product may lie
between them if it makes the other operand (gelu, then a product, then the gating mul). One kernel
for the chain need not write and read the intermediates: twice their bytes (once, where an op works
in place and its result stays). It must still move the rest, so the saving is at most the time of
the kernels, less the rest at the card's full bandwidth (where the rest fits the cache: less the 0.8
us that any kernel takes).

When it is wrong: a trace records sizes, not which tensor is which. An intermediate that is also
needed later (by the backward pass) must still be written; then only the read is saved. A kernel
that broadcasts or reads with strides may fuse badly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from foretrace.analyses._common import (
    LISTED,
    bandwidth_ns,
    bare,
    each,
    following,
    ids,
    listing,
    mixed,
    per,
    tensor_text,
)
from foretrace.model.costs import Tensor
from foretrace.model.intervals import Ints
from foretrace.model.order import Case
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule
from foretrace.units import bytes_text, plural, time_text, times_text

POINTWISE = frozenset({"pointwise", "copy"})
PRODUCTS = frozenset({"gemm", "gemv", "conv"})
# Write their operand without reading it.
WRITERS = frozenset(
    {"aten::fill_", "aten::zero_", "aten::normal_", "aten::uniform_", "aten::bernoulli_"}
)
# The shortest time of any kernel: an addition of 64 x 64 elements takes 0.9 us on an H200.
SHORTEST_NS = 800


def _check(trace: Trace) -> Iterator[Finding]:
    order = trace.order
    ends, link = _links(trace)
    if not len(ends):
        return
    groups = _groups(trace, ends, link)
    groups.sort(key=lambda group: (-group["at_most_ns"] * group["count"], group["ops"]))
    kernels = each(trace, sum(group["kernels"] * group["count"] for group in groups))
    chains = each(trace, sum(group["count"] for group in groups))
    moved = order.per_step(sum(group["bytes_saved"] * group["count"] for group in groups))
    saved = order.per_step(sum(group["at_most_ns"] * group["count"] for group in groups))
    shown = [group | {"count": each(trace, group["count"])} for group in groups[:LISTED]]
    ops = listing(shown[0]["ops"])
    title, worst = f"{ops} could be one kernel", ""
    if len(groups) > 1:
        could = plural(chains, "kernel")
        title = f"{plural(kernels, 'pointwise kernel')} {per(trace)} could be {could}"
        worst = f" Most of it: {ops}, {times_text(shown[0]['count'])} {per(trace)}."
    detail = (
        f"{shown[0]['intermediate']} is written and read again. In one kernel, memory traffic "
        f"falls by at most {bytes_text(moved)} {per(trace)} and time by at most "
        f"{time_text(saved)}.{worst} The trace shows sizes and order, not that it is the same "
        "tensor."
    )
    evidence = {"kernels": kernels, "could_be": chains, "bytes_saved": moved, "chains": shown}
    rows = np.unique(np.concatenate((ends, link[ends])))
    yield Finding(RULE.name, "found", title, detail, evidence, ids(order.events_of(rows)), saved)


def _links(trace: Trace) -> tuple[Ints, Ints]:
    """(places that link back, the place each links back to or -1), at most one link a kernel."""
    order, cases = trace.order, trace.order.cases
    link = np.full(len(order.row), -1, np.int64)
    near = following(order, 1, lambda left, right: _reads(cases[left], cases[right]))
    link[near] = near - 1
    far = following(order, 2, lambda left, right: _reads(cases[left], cases[right]))
    between = following(order, 1, lambda left, right: _feeds(cases[left], cases[right]))
    far = far[np.isin(far, between)]
    free = (link[far] < 0) & (link[far - 1] != far - 2)
    link[far[free]] = far[free] - 2
    return np.flatnonzero(link >= 0), link


def _reads(left: Case, right: Case) -> bool:
    """Whether the second may read what the first wrote: not if both do one thing in place."""
    same = left.op == right.op and _in_place(left)
    return left.role in POINTWISE and right.role in POINTWISE and not same and _takes(left, right)


def _feeds(left: Case, right: Case) -> bool:
    return left.role in PRODUCTS and _takes(left, right)


def _in_place(case: Case) -> bool:
    return case.op.endswith("_") and case.op != "aten::copy_"


def _takes(left: Case, right: Case) -> bool:
    """Whether the second has an operand of exactly the size that the first one writes."""
    return bool(left.bytes_written and right.bytes_written) and _operand(left, right) is not None


def _operand(left: Case, right: Case) -> Tensor | None:
    if right.call is None or right.op in WRITERS:
        return None
    read = (right.call.tensor(1),) if right.op == "aten::copy_" else right.call.every_tensor()
    return next((tensor for tensor in read if tensor and tensor.bytes == left.bytes_written), None)


def _groups(trace: Trace, ends: Ints, link: Ints) -> list[dict[str, Any]]:
    """Chains by the cases they consist of, with what one kernel in place of each would save."""
    order = trace.order
    last = np.setdiff1d(ends, link[ends], assume_unique=True)  # where no chain goes on
    key, ns, at = np.zeros(len(last), np.uint64), np.zeros(len(last), np.int64), last
    while (going := at >= 0).any():
        key[going] = mixed(key[going], order.case[at[going]])
        ns[going] += order.length[at[going]]
        at = np.where(going, link[at], -1)
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    count, time = np.bincount(group.reshape(-1)), np.bincount(group.reshape(-1), weights=ns)
    return [
        _group(trace, _cases(trace, int(last[place]), link), int(count[number]), int(time[number]))
        for number, place in enumerate(first.tolist())
    ]


def _cases(trace: Trace, place: int, link: Ints) -> list[Case]:
    """The cases of the chain that ends here, in order."""
    found = []
    while place >= 0:
        found.append(trace.order.cases[int(trace.order.case[place])])
        place = int(link[place])
    return found[::-1]


def _group(trace: Trace, cases: list[Case], count: int, ns: int) -> dict[str, Any]:
    between = [case.bytes_written or 0 for case in cases[:-1]]
    sizes = zip(cases, between, strict=False)
    saved = sum(size if _in_place(case) else 2 * size for case, size in sizes)
    rest = sum(case.bytes or 0 for case in cases) - saved
    largest = between.index(max(between))
    tensor = _operand(cases[largest], cases[largest + 1])
    name = f"The {bytes_text(max(between))} intermediate that {bare(cases[largest].op)} makes"
    return {
        "ops": [bare(case.op) for case in cases],
        "kernels": len(cases),
        "count": count,
        "bytes_saved": saved,
        "intermediate": f"{name} ({tensor_text(tensor)})" if tensor else name,
        "intermediate_bytes": max(between),
        "at_most_ns": max(round(ns / count - (bandwidth_ns(trace, rest) or SHORTEST_NS)), 0),
    }


TITLE = "Neighbouring pointwise kernels that could be one"
RULE = Rule("fusable_pointwise", TITLE, _check, ("gpu", "shapes"))
