"""Streams whose kernels never run at the same time.

What it shows: a program that uses several streams, and none of their kernels overlap. For each
change from one stream to another it says which came first: the launch of the next kernel, or the
end of the one before.

Why it matters: streams without overlap cost events and waits and save nothing. Either each waits
for the other, or a kernel fills the card, or the host launches the second when the first is done.

How it is computed: streams of one device with at least 5% of the kernel time each, collectives and
kernels of graphs left out. Overlap is the sum of their busy times less the time in which any of
them is busy; below 1% of the smaller one it counts as none. Where kernels waited at most of the
changes, the saving is at most the busy time of all streams but the longest; where the host came
late, it is not known.

When it is wrong: if one stream needs the result of the other, they cannot overlap. Two kernels that
each fill the card gain little from overlap.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.rules._common import each, ids, per
from foretrace.base.units import plural, time_text
from foretrace.model.intervals import Ints, split_by
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule

# A stream with less than this share of the kernel time gains too little to be worth telling.
LEAST_SHARE = 0.05
# Edges of kernels touch: on an H200 two matmuls that fill the card overlap by 7% at their ends,
# streams that wait for each other by nothing at all.
NO_OVERLAP = 0.01
WORTH_TELLING = 0.01  # of the time of the steps


def _check(trace: Trace) -> Iterator[Finding]:
    gpu = trace.gpu
    kernels = np.zeros(len(gpu), bool)
    kernels[trace.order.row[trace.order.counts]] = True
    chosen = kernels & gpu.usable & ~gpu.in_graph & (trace.work_roles != "comms")
    for mine in split_by(gpu.device_number[chosen], np.flatnonzero(chosen)):
        yield from _device(trace, mine)


def _device(trace: Trace, rows: Ints) -> Iterator[Finding]:
    gpu, order = trace.gpu, trace.order
    total = int(gpu.length[rows].sum())
    lanes = split_by(gpu.lane[rows], rows)
    lanes = [mine for mine in lanes if gpu.length[mine].sum() >= LEAST_SHARE * total]
    if len(lanes) < 2:
        return
    rows = np.sort(np.concatenate(lanes))
    busy = sorted(gpu.busy(mine) for mine in lanes)
    if sum(busy) - gpu.busy(rows) > NO_OVERLAP * busy[0]:
        return
    queued, late = _changes(trace, rows)
    saved = order.per_step(sum(busy[:-1]))
    if sum(busy[:-1]) < WORTH_TELLING * trace.idle.window_ns:
        return
    streams = sorted({int(stream) for stream in gpu.stream[rows].tolist()})
    waits = queued > late
    advice = (
        f"If neither needs the other, overlap saves at most {time_text(saved)} {per(trace)}."
        if waits
        else "Streams gain nothing before the host launches sooner."
    )
    title = f"{plural(len(lanes), 'stream')} never overlap"
    detail = (
        f"Streams {', '.join(map(str, streams))} take turns: {each(trace, queued + late)} changes "
        f"{per(trace)}. At {each(trace, queued)} of them the next kernel was launched and waited; "
        f"at {each(trace, late)} the host launched it after the other stream was done. {advice}"
    )
    evidence = {
        "streams": streams,
        "busy_ns": [order.per_step(each_busy) for each_busy in busy],
        "waited": each(trace, queued),
        "launched_late": each(trace, late),
    }
    fix = "remove waits between the streams that no data needs" if waits else ""
    events, at_most = ids(gpu.id[rows]), saved if waits else None
    yield Finding(RULE.name, "found", title, detail, evidence, events, at_most, fix)


def _changes(trace: Trace, rows: Ints) -> tuple[int, int]:
    """Changes of stream: those with the next kernel launched before the change, and the others."""
    gpu = trace.gpu
    next_one = np.flatnonzero(np.diff(gpu.lane[rows]) != 0) + 1
    linked = next_one[gpu.launch[rows[next_one]] >= 0]
    early = gpu.launched[rows[linked]] < gpu.end[rows[linked - 1]]
    return int(early.sum()), int((~early).sum())


RULE = Rule(
    "serial_streams",
    "Streams that never overlap",
    _check,
    ("gpu", "launches", "clock"),
    realised=0.25,
    first="data that one stream needs of the other",
)
