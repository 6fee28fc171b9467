"""GPU work without a launch in the trace.

What it shows: kernels, copies and fills whose launching call was not recorded: how many, how long,
which.

Why it matters: they belong to no op and no step, so every figure per step or per region leaves them
out. Most were queued before the recording began: the profiler started while the GPU was still busy.

How it is computed: GPU events whose correlation id no runtime or driver call carries.

When it is wrong: not as to the count. What the work was for cannot be told; only its names can.
Wait for the GPU before the profiler starts (`torch.cuda.synchronize()`), or give the schedule a
`warmup` step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from foretrace import families
from foretrace.analyses._common import ids, listing
from foretrace.schema.finding import Finding, Rule
from foretrace.units import percent_text, plural, time_text

if TYPE_CHECKING:
    from foretrace.model.trace import Trace


def check(trace: Trace) -> Iterator[Finding]:
    gpu, host = trace.gpu, trace.host
    rows = np.flatnonzero(gpu.launch < 0)
    if not len(rows):
        return
    ns, share = (
        int(gpu.length[rows].sum()),
        round(int(gpu.length[rows].sum()) / max(int(gpu.length.sum()), 1), 4),
    )
    early = (
        int((gpu.start[rows] < host.start[host.is_launch].min()).sum())
        if host.is_launch.any()
        else None
    )
    names = Counter(
        families.decode(host.names[name]).short for name in host.name[gpu.id[rows]].tolist()
    )
    before = f"; {early:,} of them began before the first recorded launch" if early else ""
    often = listing([name for name, _ in names.most_common(3)])
    title = f"{plural(len(rows), 'piece', 'pieces')} of GPU work without a launch in the trace"
    detail = (
        f"{time_text(ns)}, {percent_text(share)} of GPU time, in no step and under no "
        f"op{before}. Most often: {often}."
    )
    evidence = {"count": len(rows), "ns": ns, "share": share, "before_first_launch": early}
    yield Finding(RULE.name, "found", title, detail, evidence, ids(gpu.id[rows]))


RULE = Rule(
    name="unlinked_work",
    title="GPU work without a launch in the trace",
    check=check,
    needs=frozenset({"gpu"}),
)
