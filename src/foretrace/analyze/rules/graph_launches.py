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

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.rules._common import counted, each, ids, per
from foretrace.base.arrays import distinct
from foretrace.base.units import percent_text, plural, time_text
from foretrace.model import calls
from foretrace.model.intervals import Ints
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule


def _check(trace: Trace) -> Iterator[Finding]:
    gpu, host, step = trace.gpu, trace.host, trace.order.per_step
    rows, mine = graph_rows(trace), counted(trace)
    if not len(rows):
        return
    launches = distinct(gpu.launch[rows])
    ns, host_ns = int(gpu.length[rows].sum()), int(host.length[launches].sum())
    share = round(ns / max(int(gpu.length[mine].sum()), 1), 4)
    count, work = each(trace, len(launches)), each(trace, len(rows))
    title = (
        f"{plural(count, 'graph launch', 'graph launches')} {per(trace)} for "
        f"{plural(work, 'GPU operation')}"
    )
    detail = (
        f"Graphs take {time_text(step(ns))} {per(trace)}, {percent_text(share)} of GPU time. The "
        f"launch calls take {time_text(step(host_ns))} of host time. {_ops(trace, rows)}"
    )
    evidence = {
        "launches": count,
        "work": work,
        "per_launch": round(len(rows) / len(launches), 1),
        "ns": step(ns),
        "share": share,
        "host_ns": step(host_ns),
    }
    yield Finding(RULE.name, "found", title, detail, evidence, ids(launches))


def _ops(trace: Trace, rows: Ints) -> str:
    """What is known about the ops of these rows."""
    linked = int(trace.origins.is_captured[rows].sum())
    if linked == len(rows):
        return "The captures of the graphs give their ops."
    if linked:
        return f"The captures of the graphs give the ops of {percent_text(linked / len(rows))}."
    return (
        "Kernels inside a graph have no op above them, so their FLOPs and bytes are unknown. "
        "Traces of the captures would have the ops (--captures)."
    )


def graph_rows(trace: Trace) -> Ints:
    """Rows of `gpu` that a graph launch started."""
    gpu, host = trace.gpu, trace.host
    graphs = host.is_launch & host.named(calls.launches_graph)
    linked = counted(trace) & (gpu.launch >= 0)
    return np.flatnonzero(linked & graphs[np.maximum(gpu.launch, 0)])


RULE = Rule("graph_launches", "Kernels that CUDA graphs launched", _check, ("gpu",))
