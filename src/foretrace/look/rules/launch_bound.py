"""Steps that are host-bound.

What it shows: steps in which the GPU is idle for more than half of the time because the host does
not issue work fast enough: how many launches a step has, how far apart they are, how long a kernel
takes, and how often the GPU had nothing queued when a launch came.

Why it matters: faster kernels gain nothing here. Larger batches, fewer and larger kernels, or a
CUDA graph do: a graph replays all kernels of a step with one launch
(`torch.compile(mode="reduce-overhead")`). A step can never be shorter than its GPU time.

How it is computed: idle time of the step with the median idle time, in gaps below 3 ms that began
with the host inside or between ops, up to the launch that ended them. Idle time
while launched work waits in the queue does not count. Neither does time in which the host made
launches that have no GPU event: those were captured into a graph, or their events were lost. Steps
whose GPU time comes from graph launches are left out. What a graph saves is predicted by the fix
`cuda_graph`.

When it is wrong: the profiler lengthens every op and launch, so a step that is host-bound in the
trace may be less so without it; only a run record tells.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from foretrace.base.arrays import distinct
from foretrace.base.units import percent_text, plural, time_text
from foretrace.look.rules._seen import Found, Seen, rule
from foretrace.look.rules.graph_launches import graph_rows
from foretrace.trace import bounds
from foretrace.trace.intervals import Ints

# The longest gap between two ops of the recorded H200 steps is 2.5 ms. Beyond that the host does
# something else than issuing ops: it loads data, compiles, or sets a library up.
ISSUING_NS = 3_000_000
MOSTLY = 0.5


@rule(
    "Steps that are host-bound",
    "gpu launches clock",
    fixes="cuda_graph",
    example="llama_train_eager",
)
def _check(seen: Seen) -> Found:
    if nothing := seen.untold():
        yield nothing
        return
    gpu, spans, idle, in_steps = seen.gpu, seen.trace.spans, seen.idle, bool(seen.order.steps)
    busy = round(spans.median_busy(spans.steps) or 0) if in_steps else gpu.busy(gpu.usable)
    proven = seen.proven() & ~idle.of("queue")
    starving = proven & idle.of("launch", "host") & (idle.length < ISSUING_NS)
    total, slow = (seen.limited(idle.length[part].sum()) for part in (proven, starving))
    idle_share = total / max(total + busy, 1)
    by_graphs, every = (gpu.length[each].sum() for each in (graph_rows(seen.trace), seen.counted))
    issued = by_graphs > MOSTLY * every  # graph launches already bring most of the GPU time
    if idle_share <= bounds.MOSTLY_IDLE or slow < MOSTLY * total or issued:
        return
    launches, facts = _launches(seen)
    count = f"{plural(facts['launches'], 'launch', 'launches')} {seen.per}"
    unit = "a step" if in_steps else "the recording"
    title = f"{count}; {unit} cannot go below its {time_text(busy)} of GPU time"
    medians = ""
    if facts["launch_interval_ns"] is not None:
        apart, length = time_text(facts["launch_interval_ns"]), time_text(facts["kernel_ns"])
        medians = f"Launches are {apart} apart, kernels take {length} (medians). "
    detail = (
        f"{medians}The GPU was idle before {percent_text(facts['empty_queue_share'])} of its "
        f"kernels. {seen.host_note()}"
    )
    evidence = facts | {"busy_ns": busy, "idle_share": round(idle_share, 4)}
    yield seen.found(title, detail, evidence, launches, gaps=idle.only(starving))


def _launches(seen: Seen) -> tuple[Ints, dict[str, Any]]:
    """The calls that launch kernels: how many, how far apart, how often into an empty queue."""
    gpu, order, idle = seen.gpu, seen.order, seen.trace.gaps.every
    rows = np.flatnonzero(seen.counted & gpu.is_kernel & (gpu.launch >= 0))
    timed = rows[gpu.usable[rows]]
    ended = np.zeros(len(gpu), bool)
    ended[idle.then[idle.of("launch", "host") & (idle.then >= 0)]] = True
    launches, length = distinct(gpu.launch[rows]), order.length[order.counts]
    # distances between launches of the same step, as the verdict counts them
    start = np.sort(seen.host.start[launches])
    begins = [span.start_ns for span in seen.trace.spans.steps]
    apart = np.diff(start)[np.diff(np.searchsorted(begins, start, side="right")) == 0]
    return launches, {
        "launches": seen.each(len(launches)),
        "kernels": seen.each(int(order.counts.sum())),
        "launch_interval_ns": int(np.median(apart)) if len(apart) else None,
        "kernel_ns": int(np.median(length)) if len(length) else 0,
        "empty_queue_share": round(float(ended[timed].mean()), 4) if len(timed) else 0.0,
    }
