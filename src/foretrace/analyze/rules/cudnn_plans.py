"""cuDNN plans made for new shapes.

What it shows: calls of cuDNN ops that keep the host busy for milliseconds, each with shapes that no
call before had.

Why it matters: cuDNN chooses and builds a plan for every new shape. On an H200 (torch 2.11) a call
of attention with one query takes 0.1 ms on the host when its shape is known and 55 ms when it is
new. A cache that grows by one token a step gives a new shape at every step. No graph and no fusion
helps; fixed shapes do, and flash attention needs no plan.

How it is computed: calls of ops with `cudnn` in their name that take at least 5 ms on the host, ops
inside them left out, and whose recorded shapes are new in the trace. The saving is at most their
time, and at most the idle time of the GPU.

When it is wrong: shapes of before the recording are not known. A first call of all, with the
library's loading, looks the same; so one such call in a trace is not told.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.rules._common import (
    bare,
    ids,
    inside_steps,
    listing,
    per,
)
from foretrace.analyze.rules._idle import most_idle
from foretrace.base.units import plural, time_text
from foretrace.model.intervals import Ints
from foretrace.model.recording import op_call
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule

# Known shapes take 0.04 to 0.13 ms with the profiler on, new ones 55 ms (an H200's host).
SLOW_NS = 5_000_000
FEWEST = 2


def _check(trace: Trace) -> Iterator[Finding]:
    host, step = trace.host, trace.order.per_step
    rows = _new(trace)
    rows = inside_steps(trace, rows[host.self_length[rows] >= SLOW_NS])
    if len(rows) < FEWEST:
        return
    time = host.self_length[rows]
    ops = listing(sorted({bare(host.names[name]) for name in host.name[rows].tolist()}))
    saved = min(step(int(time.sum())), most_idle(trace))
    first, last = _changed(trace, rows)
    title = f"cuDNN made {plural(len(rows), 'plan')} for new shapes of {ops}"
    detail = (
        f"Each keeps the host for {time_text(float(np.median(time)))} (median). The shapes go from "
        f"{first} to {last}. Fixed shapes would save at most {time_text(saved)} {per(trace)}."
    )
    evidence = {
        "plans": len(rows),
        "ns": step(int(time.sum())),
        "median_ns": int(np.median(time)),
        "first_shape": first,
        "last_shape": last,
    }
    flash = " (pad the cache), or use flash attention" if "attention" in ops else ""
    fix = f"keep the shapes fixed{flash}"
    yield Finding(RULE.name, "found", title, detail, evidence, ids(rows), saved, fix)


def _changed(trace: Trace, rows: Ints) -> tuple[str, str]:
    """The first argument that differs between the first and the last of these calls."""
    calls = [op_call(trace, int(row)) for row in (rows[0], rows[-1])]
    before, after = (call.every_tensor() if call else () for call in calls)
    pairs = [(old, new) for old, new in zip(before, after, strict=False) if old != new]
    return (pairs[0][0].text, pairs[0][1].text) if pairs else ("one", "another")


def _new(trace: Trace) -> Ints:
    """Calls of cuDNN ops whose shapes no call of the op before them had."""
    host = trace.host
    calls = np.flatnonzero(host.is_op & host.lasting & host.named(lambda name: "cudnn" in name))
    shapes = trace.arguments.numbers(calls)
    calls, shapes = calls[shapes >= 0], shapes[shapes >= 0]
    key = host.name[calls].astype(np.int64) * (int(shapes.max(initial=0)) + 1) + shapes
    found: Ints = calls[np.sort(np.unique(key, return_index=True)[1])]
    return found


RULE = Rule(
    "cudnn_plans", "cuDNN plans made for new shapes", _check, ("gpu", "ops", "shapes"), realised=0.9
)
