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

import numpy as np

from foretrace.base.units import percent_text, plural, time_text
from foretrace.look.rules._seen import Found, Seen, rule
from foretrace.trace.intervals import IntervalUnion, split_by

TITLE = "Communication that does not overlap with computation"


@rule(TITLE, "gpu", realised=0.25, first="ranks that arrive late")
def _check(seen: Seen) -> Found:
    gpu, works = seen.gpu, seen.trace.work_roles != "comms"
    talking = seen.counted & gpu.usable & ~works
    total = alone = 0  # time with a collective running, and the part in which nothing else ran
    for rows in split_by(gpu.device_number[gpu.usable], np.flatnonzero(gpu.usable)):
        mine, rest = rows[talking[rows]], rows[works[rows]]
        comms = IntervalUnion(gpu.start[mine], gpu.end[mine])
        other = IntervalUnion(gpu.start[rest], gpu.end[rest])
        length = comms.end - comms.start
        total += int(length.sum())
        alone += int((length - other.between(comms.start, comms.end)).sum())
    if not alone:
        return
    exposed, events = seen.step(alone), gpu.id[talking]
    count, share = seen.each(len(events)), round(alone / total, 4)
    title = f"{time_text(exposed)} of communication {seen.per} without overlap"
    detail = (
        f"{plural(count, 'collective')} {seen.per}: {time_text(seen.step(total))}. "
        f"{percent_text(share)} of it overlaps with no other GPU operation. Part of it may be "
        "waiting for other ranks."
    )
    evidence = {"collectives": count, "ns": seen.step(total)}
    evidence |= {"exposed_ns": exposed, "exposed_share": share}
    fix = "overlap the collectives with computation"
    yield seen.found(title, detail, evidence, events, exposed, fix)
