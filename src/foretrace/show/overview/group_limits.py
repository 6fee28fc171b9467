"""What limits the kernels of a group, in a phrase: from the limits of its cases, their rates, and
how many kernels one call takes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from foretrace.base.units import plural
from foretrace.model.costs.roofline import AT_ROOF
from foretrace.model.intervals import Ints
from foretrace.model.trace import Trace
from foretrace.names import families
from foretrace.show.overview.group_work import CaseTime, GroupWork

# Kernels that torch.compile joins: it made one of each RMSNorm, SwiGLU and RoPE in the recorded
# models. A library's kernel stays as it is.
FUSABLE = frozenset({"pointwise", "copy", "reduction"})
LEAST_RATE = 0.1  # bytes per ns, which is GB/s
PART = 0.2  # of a group's time: a bound below is not worth a word
MINOR = 0.02  # of the time of a bound: cases below do not widen its range
_ROOFS = {"compute": "compute", "memory": "HBM"}
_COUNTED = {"last wave": "last wave partly full", "only ": "short kernels"}
_UNSURE = re.compile(r"(?:about|at least) (?=\d|under)")
_BLOCKS = re.compile(r"(?<![\d,])([\d,]+) blocks? on (\d+) SMs")


def limited_by(work: GroupWork) -> str:
    """`8 kernels each, fusable`, `4 blocks on 132 SMs`, `at the HBM roof (82%)`, or ""."""
    if not work.cases:
        return _copied(work.trace, work.rows)
    return _many(work) or _bounds(work)


def _many(work: GroupWork) -> str:
    """Calls of several kernels, all of which could be one."""
    calls, fusable = work.calls, all(each.case.role in FUSABLE for each in work.cases)
    if not len(calls) or calls.max() < 2:
        return ""
    low, high = int(calls.min()), int(calls.max())
    count = f"{high}" if low == high else f"{low} to {high}"
    backward = bool(work.trace.grouped.backward[work.rows].any())
    every = "each forward" if backward else "each"
    if fusable:
        return f"{count} kernels {every}, fusable"
    by_hand = work.name == "attention" and any(each.case.role == "softmax" for each in work.cases)
    return f"{count} kernels {every}, not fused" if by_hand else ""


def _bounds(work: GroupWork) -> str:
    """The bounds that take a fifth of the group's time and more, the most first; at most two, and
    none where they do not explain half of it.
    """
    by_bound: dict[str, list[CaseTime]] = {}
    for each in work.cases:
        by_bound.setdefault(each.case.bound, []).append(each)
    times = {bound: _time(cases) for bound, cases in by_bound.items()}
    main = sorted((b for b in times if times[b] >= PART * work.ns), key=lambda b: -times[b])
    texts = {bound: _text(bound, by_bound[bound]) for bound in main[:2]}
    explained = sum(times[bound] for bound, text in texts.items() if text)
    return "; ".join(filter(None, texts.values())) if explained >= work.ns / 2 else ""


def _time(cases: Sequence[CaseTime]) -> int:
    return sum(each.ns for each in cases)


def _text(bound: str, cases: Sequence[CaseTime]) -> str:
    least = MINOR * _time(cases)
    main = [each for each in cases if each.ns >= least]
    if bound in _ROOFS:
        return _near(_ROOFS[bound], main)
    if bound == "latency":
        return _latency(main)
    if bound == "l2":
        return _cached(main)
    said = {each.case.limited_by for each in main}
    return said.pop() if len(said) == 1 and bound != "unknown" else ""


def _near(roof: str, cases: Sequence[CaseTime]) -> str:
    """Percent of the roof, and the cause that most of the time shares."""
    reached = [each.case.roof_percent for each in cases]
    percents = [percent for percent in reached if percent is not None]
    if not percents:
        return ""
    low, high = int(min(percents)), int(max(percents))
    span = f"{high}%" if low == high else f"{low} to {high}%"
    unsure = [found[0] for each in cases if (found := _UNSURE.search(each.case.limited_by))]
    span = f"{min(unsure)}{span}" if unsure else span  # "about" where there are both
    if low >= 100 * AT_ROOF:
        return f"at the {roof} roof ({span})"
    cause = _shared_cause(cases)
    return f"{span} of {roof}" + (f": {cause}" if cause else "")


def _cached(cases: Sequence[CaseTime]) -> str:
    """Each kernel has its own producer: the group says how near to L2's roof they come."""
    said = {each.case.limited_by for each in cases}
    percents = [each.case.roof_percent for each in cases]
    if len(said) == 1 or None in percents:
        return said.pop() if len(said) == 1 else "from L2, faster than HBM"
    low, high = int(min(filter(None, percents))), int(max(filter(None, percents)))
    return f"from L2 ({f'{high}' if low == high else f'{low} to {high}'}% of its roof)"


def _shared_cause(cases: Sequence[CaseTime]) -> str:
    """A cause that holds for more than half of the time; those with a number of each kernel's own
    are named without it.
    """
    times: dict[str, int] = {}
    for each in cases:
        cause = each.case.limited_by.partition(": ")[2]
        cause = next((text for start, text in _COUNTED.items() if cause.startswith(start)), cause)
        times[cause] = times.get(cause, 0) + each.ns
    most = max(times, key=lambda cause: times[cause])
    return most if times[most] > _time(cases) / 2 else ""


def _latency(cases: Sequence[CaseTime]) -> str:
    """Few blocks, or little work, whichever takes more of the time."""
    few = [(found, each.ns) for each in cases if (found := _BLOCKS.search(each.case.limited_by))]
    if 2 * sum(ns for _, ns in few) > _time(cases):
        blocks = [int(found[1].replace(",", "")) for found, _ in few]
        low, high = min(blocks), max(blocks)
        count = plural(high, "block") if low == high else f"{low} to {high} blocks"
        return f"{count} on {few[0][0][2]} SMs"
    return "latency: little work"


def _copied(trace: Trace, rows: Ints) -> str:
    """`1.3 GB/s, pageable` for memcpys between the host and a GPU; "" for others.

    Copies from pageable and from pinned memory have rates of their own; the one that takes
    more of the time comes first.
    """
    gpu, host = trace.gpu, trace.host
    name = host.name[gpu.id[rows]]
    found = []
    numbers, place = np.unique(name, return_inverse=True)
    spent, least = np.bincount(place, gpu.length[rows]), PART * int(gpu.length[rows].sum())
    for number in numbers[spent >= least].tolist():  # at most five
        decoded, mine = families.decode(host.names[number]), rows[name == number]
        memory = {decoded.get("src"), decoded.get("dst")} & {"Pageable", "Pinned"}
        time, moved = int(gpu.length[mine].sum()), gpu.bytes[mine]
        if memory and time >= least:
            # a copy of a few bytes is all latency: it has no rate worth a word
            known = bool((moved >= 0).all()) and int(moved.sum()) >= time * LEAST_RATE
            rate = f"{int(moved.sum()) / time:.3g} GB/s, " if known else ""
            found.append((-time, rate + memory.pop().lower()))
    return "; ".join(text for _, text in sorted(found))
