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

import numpy as np

from foretrace.base.units import plural, time_text
from foretrace.look.rules._seen import Facts, Found, Seen, rule
from foretrace.trace.intervals import Ints, split_by

# A stream with less than this share of the kernel time gains too little to be worth telling.
LEAST_SHARE = 0.05
# Edges of kernels touch: on an H200 two matmuls that fill the card overlap by 7% at their ends,
# streams that wait for each other by nothing at all.
NO_OVERLAP = 0.01
FIRST = "data that one stream needs of the other"


@rule("Streams that never overlap", "gpu launches clock", realised=0.25, first=FIRST)
def _check(seen: Seen) -> Found:
    gpu = seen.gpu
    kernels = np.zeros(len(gpu), bool)
    kernels[seen.order.row[seen.order.counts]] = True
    chosen = kernels & gpu.usable & ~gpu.in_graph & (seen.trace.work_roles != "comms")
    for mine in split_by(gpu.device_number[chosen], np.flatnonzero(chosen)):
        yield from _device(seen, mine)


def _device(seen: Seen, rows: Ints) -> Found:
    gpu, total = seen.gpu, int(seen.gpu.length[rows].sum())
    lanes = split_by(gpu.lane[rows], rows)
    lanes = [mine for mine in lanes if gpu.length[mine].sum() >= LEAST_SHARE * total]
    if len(lanes) < 2:
        return
    rows = np.sort(np.concatenate(lanes))
    busy = sorted(gpu.busy(mine) for mine in lanes)
    if sum(busy) - gpu.busy(rows) > NO_OVERLAP * busy[0]:
        return
    if sum(busy[:-1]) < 0.01 * seen.trace.idle.window_ns:  # of the time of the steps
        return
    # changes of stream: those with the next kernel launched before the change, and the others
    behind = np.flatnonzero(np.diff(gpu.lane[rows]) != 0) + 1
    linked = behind[gpu.launch[rows[behind]] >= 0]
    early = gpu.launched[rows[linked]] < gpu.end[rows[linked - 1]]
    waits, saved = 2 * int(early.sum()) > len(linked), seen.step(sum(busy[:-1]))
    changes, queued, late = map(seen.each, (len(linked), int(early.sum()), int((~early).sum())))
    streams = sorted({int(stream) for stream in gpu.stream[rows].tolist()})
    advice = (
        f"If neither needs the other, overlap saves at most {time_text(saved)} {seen.per}."
        if waits
        else "Streams gain nothing before the host launches sooner."
    )
    title = f"{plural(len(lanes), 'stream')} never overlap"
    detail = (
        f"Streams {', '.join(map(str, streams))} take turns: {changes} changes "
        f"{seen.per}. At {queued} of them the next kernel was launched and waited; "
        f"at {late} the host launched it after the other stream was done. {advice}"
    )
    evidence: Facts = {"streams": streams, "busy_ns": [seen.step(each) for each in busy]}
    evidence |= {"waited": queued, "launched_late": late}
    fix = "remove waits between the streams that no data needs" if waits else ""
    yield seen.found(title, detail, evidence, gpu.id[rows], saved if waits else None, fix)
