"""Neighbouring kernels that could be one.

What it shows: groups of pointwise, cast, copy, reduction and normalization kernels of which each
reads what another one has written: how many kernels would do, and how much memory traffic that
avoids.

Why it matters: such kernels are memory-bound or too short to matter alone. Every step from one to
the next costs a write and a read of the whole tensor, and a launch. `torch.compile` fuses these
first. Liger and other hand-written kernels exist for them.

How it is computed: in launch order on one stream, between two matmuls, a kernel belongs to the
group of an earlier one when it has an operand of exactly the size that the earlier one writes. A
matmul may lie between two of them if it makes the other operand (gelu, then a matmul, then the
gating mul). One kernel for the group must still read every operand that comes from outside once,
and write every result that no kernel of the group reads. An intermediate stays in L2 where each
kernel of the group moves no more than L2 holds. Kernels of an optimizer step are in
`unfused_optimizer`. Those that compiled code launched are left out. What fusing saves is predicted
by the fix `compile`.

When it is wrong: a trace records sizes, not which tensor is which. An intermediate that is also
needed later (by the backward pass) must still be written; then only the read is saved. A reduction
over the whole tensor ends a kernel.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from foretrace.base.arrays import distinct
from foretrace.base.units import bytes_text, plural, time_text, times_text
from foretrace.look.rules._seen import (
    LISTED,
    Found,
    Seen,
    bare,
    has_gaps,
    rule,
    shortened,
    traffic_of,
)
from foretrace.look.rules.unfused_optimizer import optimizer_rows
from foretrace.read.compiler import rows as compiled
from foretrace.trace.arguments import made, operands
from foretrace.trace.intervals import Ints, split_by
from foretrace.trace.kernels import Case
from foretrace.trace.trace import Trace
from foretrace.work.costs.limits import cache_rate, memory_rate, traffic_ns

# What TorchInductor generates as one kernel: pointwise code, and reductions or scans along with it.
_FUSABLE = "pointwise copy reduction scan normalization softmax scatter_gather random"
FUSABLE = frozenset(_FUSABLE.split())
POINTWISE = frozenset({"pointwise", "copy"})
MATMULS = frozenset({"gemm", "gemv", "conv"})
OPAQUE = MATMULS | {"attention"}
# Kernels from a writer to its reader: RoPE adds q * cos to a matmul that is 4 kernels on, and the
# RMSNorm of a Gemma multiplies by x 5 kernels after x was cast.
REACH = 6
# A tensor that is written and read in less: a kernel takes as long to start.
SHORTEST_TOLD_NS = 1000
NONE = np.empty(0, np.int64)


@rule("Neighbouring kernels that could be one", "gpu shapes", fixes="compile", example="mlp_eager")
def _check(seen: Seen) -> Found:
    every, alike = chains(seen.trace), dict[bytes, list[Ints]]()
    for mine in every:
        alike.setdefault(seen.order.case[mine].tobytes(), []).append(mine)
    groups = [_group(seen, found) for found in alike.values()]
    groups = [group for group in groups if group["bytes_saved"]]
    if not groups:
        return
    groups.sort(key=lambda group: (-group["bytes_saved"] * group["count"], group["ops"]))
    kernels = seen.each(sum(group["kernels"] * group["count"] for group in groups))
    fewest = seen.each(sum(group["count"] for group in groups))
    moved = seen.step(sum(group["bytes_saved"] * group["count"] for group in groups))
    shown = [group | {"count": seen.each(group["count"])} for group in groups[:LISTED]]
    first = shown[0]
    ops = shortened(first["ops"])
    title = f"{ops} could be {first['could_be']}"
    most = f"{first['intermediate']} is written and read again. "
    most += _in_cache(seen, first["intermediate_bytes"], first["largest_bytes"])
    if len(groups) > 1:
        title = f"{plural(kernels, 'kernel')} {seen.per} could be as few as {fewest:,}"
        most += f"Most of the time: {ops}, {times_text(first['count'])} {seen.per}. "
    detail = (
        f"{most}One kernel for each group avoids at most {bytes_text(moved)} of memory traffic "
        f"{seen.per}. The trace shows sizes and order, not that it is the same tensor."
    )
    evidence = {"kernels": kernels, "could_be": fewest, "bytes_saved": moved, "chains": shown}
    events = seen.order.events_of(np.concatenate([NONE, *every]))
    yield seen.found(title, detail, evidence, events)


def _in_cache(seen: Seen, size: int, working_set: int) -> str:
    """What L2 makes of writing and reading a tensor, where it holds all that a kernel moves."""
    device = seen.device
    if device is None or not cache_rate(device) or not 0 < working_set <= (device.cache_bytes or 0):
        return ""
    cached = traffic_ns(device, 2 * size, working_set)
    memory = 2 * size / memory_rate(device) * 1e9
    if memory < SHORTEST_TOLD_NS:
        return ""
    return f"It fits in L2: {time_text(cached)} at its roof, not the {time_text(memory)} of HBM. "


def chains(trace: Trace) -> list[Ints]:
    """Places in launch order of the kernels that one kernel could do, group by group."""
    reader, writer = _links(Seen(trace))
    label = np.arange(len(trace.order.row))  # the same within a group
    before = label - 1
    while (label != before).any():
        low, before = np.minimum(label[reader], label[writer]), label.copy()
        np.minimum.at(label, reader, low)
        np.minimum.at(label, writer, low)
        label = label[label]
    places = distinct(np.concatenate((reader, writer)))
    return split_by(label[places], places)


def _links(seen: Seen) -> tuple[Ints, Ints]:
    """(readers, their writers) among the kernels, as places in launch order."""
    order, cases = seen.order, seen.cases
    # kernels that help a matmul (a split-K sum, a bias) stay with it
    matmuls = {case.op for case in cases if case.role in OPAQUE}
    fusable = [case.role in FUSABLE and case.op not in matmuls for case in cases]
    written = [made(case) for case in cases]
    read = [[size for _, size in operands(case)] for case in cases]

    def passes(left: Case, right: Case) -> bool:
        """Whether the second has an operand of exactly the size that the first one writes."""
        size = written[left.number]
        return size > 0 and size in read[right.number]

    known: dict[tuple[int, int], bool] = {}

    def reads(left: Case, right: Case) -> bool:
        pair = left.number, right.number
        if pair not in known:
            known[pair] = fusable[pair[0]] and passes(left, right) and _may_read(left, right)
        return known[pair]

    def feeds(left: Case, right: Case) -> bool:
        """Whether a matmul makes one of several operands."""
        return left.role in MATMULS and len(read[right.number]) > 1 and passes(left, right)

    def eats(left: Case, right: Case) -> bool:
        """Whether a matmul reads what the kernel before it wrote."""
        return right.role in MATMULS and passes(left, right)

    run = np.cumsum(~np.array(fusable, bool)[order.case])
    pairs = []
    for distance in range(1, REACH + 1):
        right = seen.following(distance, reads)
        pairs.append((right[run[right] == run[right - distance]], distance))
    far = seen.following(2, reads)
    fed, eaten = seen.following(1, feeds), seen.following(1, eats)
    fed = far[np.isin(far, fed) & ~np.isin(far - 1, eaten) & (run[far] > run[far - 2])]
    reader = np.concatenate([fed, *(right for right, _ in pairs)])
    writer = np.concatenate([fed - 2, *(right - distance for right, distance in pairs)])
    # what torch.compile left apart stays apart
    other = seen.within(order.op, compiled.is_row) < 0
    other &= ~np.isin(order.row, optimizer_rows(seen.trace))
    kept = other[reader] & other[writer] & np.array(fusable, bool)[order.case[reader]]
    return reader[kept], writer[kept]


def _may_read(left: Case, right: Case) -> bool:
    """Whether one fused kernel can do both: two calls of one norm, or in place, stay two."""
    if left.op == right.op == "aten::copy_" and left.call and right.call:
        to, source = left.call.tensor(0), right.call.tensor(1)
        if to and source and has_gaps(source) > has_gaps(to):
            return False  # the source is part of a larger tensor than the other copy has written
    in_place = left.op.endswith("_") and left.op != "aten::copy_"
    same = left.op == right.op and (in_place or left.role not in POINTWISE)
    # torch.compile knows what ATen's ops compute; others it calls as they are
    both = left.op.startswith("aten::") and right.op.startswith("aten::")
    return both and not same and bool(right.bytes_written)


def _group(seen: Seen, found: list[Ints]) -> dict[str, Any]:
    numbers, first, count = seen.order.case, found[0], len(found)
    cases = [seen.cases[number] for number in numbers[first].tolist()]
    near = numbers[max(int(first[0]) - REACH, 0) : int(first[-1])].tolist()
    matmuls = [case for number in near if (case := seen.cases[number]).role in MATMULS]
    traffic = traffic_of(cases, Counter(made(case) for case in matmuls))
    return {
        "ops": [bare(case.op) for case in cases],
        "kernels": len(cases),
        "could_be": "one kernel" if {case.role for case in cases} <= POINTWISE else "fused",
        "count": count,
        "bytes_saved": max(sum(case.bytes or 0 for case in cases) - traffic.least, 0),
        "intermediate": traffic.name,
        "intermediate_bytes": traffic.largest,
        "largest_bytes": max(case.bytes or 0 for case in cases),
    }
