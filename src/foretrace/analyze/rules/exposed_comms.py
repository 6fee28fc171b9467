"""Communication that does not overlap with computation.

What it shows: time in which collectives ran and no other kernel did, on the same device.

Why it matters: communication that overlaps with computation is free. The rest is what scaling
costs. Larger buckets, another order of layers, or fewer and larger collectives hide more of it. A
collective also waits for the slowest rank: not all of its time is transfer.

How it is computed: the union of collective kernels, less the union of all other GPU operations on
their device. The saving is at most that.

When it is wrong: in the trace of one rank, waiting for another rank and moving data look the same.
Overlap does not mean that both ran at full speed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.rules._common import counted, each, ids, per
from foretrace.base.units import percent_text, plural, time_text
from foretrace.model.intervals import Bools, IntervalUnion, split_by
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule


def _check(trace: Trace) -> Iterator[Finding]:
    gpu, step = trace.gpu, trace.order.per_step
    talking = counted(trace) & gpu.usable & (trace.work_roles == "comms")
    total, exposed = _exposed(trace, talking)
    if not exposed:
        return
    rows = np.flatnonzero(talking)
    count, share = each(trace, len(rows)), round(exposed / total, 4)
    title = f"{time_text(step(exposed))} of communication {per(trace)} without overlap"
    detail = (
        f"{plural(count, 'collective')} {per(trace)}: {time_text(step(total))}. "
        f"{percent_text(share)} of it overlaps with no other GPU operation. Part of it may be "
        "waiting for other ranks."
    )
    evidence = {
        "collectives": count,
        "ns": step(total),
        "exposed_ns": step(exposed),
        "exposed_share": share,
    }
    events, fix = ids(gpu.id[rows]), "overlap the collectives with computation"
    yield Finding(RULE.name, "found", title, detail, evidence, events, step(exposed), fix)


def _exposed(trace: Trace, talking: Bools) -> tuple[int, int]:
    """(time with a collective running, the part in which nothing else ran), over all devices."""
    gpu = trace.gpu
    total = exposed = 0
    works = trace.work_roles != "comms"
    for rows in split_by(gpu.device_number[gpu.usable], np.flatnonzero(gpu.usable)):
        mine, rest = rows[talking[rows]], rows[works[rows]]
        comms = IntervalUnion(gpu.start[mine], gpu.end[mine])
        other = IntervalUnion(gpu.start[rest], gpu.end[rest])
        length = comms.end - comms.start
        total += int(length.sum())
        exposed += int((length - other.between(comms.start, comms.end)).sum())
    return total, exposed


RULE = Rule(
    "exposed_comms",
    "Communication that does not overlap with computation",
    _check,
    ("gpu",),
    realised=0.25,
    first="ranks that arrive late",
)
