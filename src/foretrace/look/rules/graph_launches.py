"""Kernels that CUDA graphs launched.

What it shows: graph launches, how many kernels each of them launched, and how much of the GPU time
came that way.

Why it matters: a graph replays kernels at a fraction of the host cost, which fixes launch-bound
steps. But its kernels have no ops above them in a trace, so shapes, FLOP and bytes of what a graph
ran are unknown.

How it is computed: GPU operations whose launching call is a graph launch.

When it is wrong: a profiler that records graphs as one entry hides their kernels. Then the counts
are too low.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.arrays import distinct
from foretrace.base.units import percent_text, plural, time_text
from foretrace.look.rules._seen import Found, Seen, rule
from foretrace.trace.intervals import Ints
from foretrace.trace.trace import Trace


@rule("Kernels that CUDA graphs launched", "gpu", example="llama_decode_cuda_graph_2layers")
def _check(seen: Seen) -> Found:
    gpu, rows = seen.gpu, graph_rows(seen.trace)
    if not len(rows):
        return
    launches = distinct(gpu.launch[rows])
    host_ns = seen.step(int(seen.host.length[launches].sum()))
    share = round(int(gpu.length[rows].sum()) / max(int(gpu.length[seen.counted].sum()), 1), 4)
    count, work, ns = seen.each(len(launches)), seen.each(len(rows)), seen.ns(rows)
    title = (
        f"{plural(count, 'graph launch', 'graph launches')} {seen.per} for "
        f"{plural(work, 'GPU operation')}"
    )
    linked = int(seen.trace.origins.is_captured[rows].sum()) / len(rows)
    ops = (
        "Kernels inside a graph have no op above them, so their FLOPs and bytes are unknown. "
        "Traces of the captures would have the ops (--captures)."
    )
    if linked:
        part = "their ops" if linked == 1 else f"the ops of {percent_text(linked)}"
        ops = f"The captures of the graphs give {part}."
    detail = (
        f"Graphs take {time_text(ns)} {seen.per}, {percent_text(share)} of GPU time. The "
        f"launch calls take {time_text(host_ns)} of host time. {ops}"
    )
    evidence = {"launches": count, "work": work, "per_launch": round(len(rows) / len(launches), 1)}
    evidence |= {"ns": ns, "share": share, "host_ns": host_ns}
    yield seen.found(title, detail, evidence, launches)


def graph_rows(trace: Trace) -> Ints:
    """Rows of `gpu` that a graph launch started."""
    gpu, host = trace.gpu, trace.host
    graphs = host.is_launch & host.is_graph_launch
    linked = Seen(trace).counted & (gpu.launch >= 0)
    return np.flatnonzero(linked & graphs[np.maximum(gpu.launch, 0)])
