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

import numpy as np

from foretrace.base.units import plural, time_text
from foretrace.look.rules._seen import Facts, Found, Seen, bare, listing, rule
from foretrace.trace.intervals import Ints

# Known shapes take 0.04 to 0.13 ms with the profiler on, new ones 55 ms (an H200's host).
SLOW_NS = 5_000_000


@rule("cuDNN plans made for new shapes", "gpu ops shapes", realised=0.9)
def _check(seen: Seen) -> Found:
    host = seen.host
    calls = np.flatnonzero(host.is_op & host.lasting & host.named(lambda name: "cudnn" in name))
    shapes = seen.trace.arguments.numbers(calls)
    calls, shapes = calls[shapes >= 0], shapes[shapes >= 0]
    key = host.name[calls].astype(np.int64) * (int(shapes.max(initial=0)) + 1) + shapes
    # the first call of each op and shape
    rows: Ints = calls[np.sort(np.unique(key, return_index=True)[1])]
    rows = seen.inside_steps(rows[host.self_length[rows] >= SLOW_NS])
    if len(rows) < 2:
        return
    time = host.self_length[rows]
    spent, median = seen.step(int(time.sum())), float(np.median(time))
    ops = listing(sorted({bare(host.names[name]) for name in host.name[rows].tolist()}))
    # no saving on the host alone can exceed the idle time of the GPU
    idle = seen.idle.length[seen.proven() & ~seen.idle.of("queue")].sum()
    saved = min(spent, seen.limited(idle))
    before, after = (seen.call(int(row)).every_tensor() for row in (rows[0], rows[-1]))
    pairs = [(old.text, new.text) for old, new in zip(before, after, strict=False) if old != new]
    first, last = pairs[0] if pairs else ("one", "another")
    title = f"cuDNN made {plural(len(rows), 'plan')} for new shapes of {ops}"
    detail = (
        f"Each keeps the host for {time_text(median)} (median). The shapes go from "
        f"{first} to {last}. Fixed shapes would save at most {time_text(saved)} {seen.per}."
    )
    evidence: Facts = {"plans": len(rows), "ns": spent, "median_ns": int(median)}
    evidence |= {"first_shape": first, "last_shape": last}
    flash = " (pad the cache), or use flash attention" if "attention" in ops else ""
    yield seen.found(title, detail, evidence, rows, saved, f"keep the shapes fixed{flash}")
