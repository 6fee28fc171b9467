"""Ops that only change shapes and strides.

What it shows: calls of `aten::t`, `transpose`, `view`, `reshape`, `as_strided`, `_unsafe_view` and
similar ops that launched nothing on the GPU: they write a new shape and new strides and return.

Why it matters: they look like work in a profiler table but do none. They cost host time, a few
microseconds each, which counts only while the GPU waits for the host. `torch.compile` resolves them
once, at compile time.

How it is computed: the calls of ops from a list of view ops below which no kernel, copy or fill was
launched. Those inside the capture of a CUDA graph run once for all replays, so they are left out.
Their time is the median of the steps after the first, which is cold in many recordings.

When it is wrong: `contiguous`, `reshape` and `to` are on the list and counted only in calls that
launched nothing. A custom op that returns a view is not on it. Part of the host time is profiler
overhead.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.units import plural, time_text
from foretrace.look.rules._seen import Found, Seen, bare, listing, rule
from foretrace.trace.reach import is_view

NAMED = 8  # the names that fit one line of the detail


@rule("Ops that only change shapes and strides", "gpu ops", example="llama_train_eager")
def _check(seen: Seen) -> Found:
    host = seen.host
    views = host.is_op & host.named(is_view) & host.lasting & (seen.trace.work_below == 0)
    rows = seen.inside_steps(np.flatnonzero(views))
    rows = rows[~host.captures.holds(host.start[rows])]
    if not len(rows):
        return
    numbers, inverse, count = np.unique(host.name[rows], return_inverse=True, return_counts=True)
    own = np.bincount(inverse, weights=host.self_length[rows]).astype(np.int64)
    calls = {
        host.names[numbers[at]]: seen.each(int(count[at]))
        for at in np.lexsort((numbers, -own)).tolist()
    }
    start, own_ns = host.start[rows], host.self_length[rows]
    if not seen.order.steps:
        host_ns = int(own_ns.sum())
    else:
        spans = [span for span in seen.trace.spans.steps if len(span.work)]
        usual = sorted(spans, key=lambda span: span.start_ns)[len(spans) > 1 :]
        times = [own_ns[(span.start_ns <= start) & (start < span.end_ns)].sum() for span in usual]
        host_ns = int(np.median(times))
    names = list(dict.fromkeys(bare(name) for name in calls))
    more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
    title = f"{plural(sum(calls.values()), 'op call')} {seen.per} only for shapes and strides"
    spent, shown = f"{time_text(host_ns)} of host time {seen.per}", listing(names[:NAMED] + more)
    detail = f"{shown} launched nothing and took {spent}. {seen.host_note()}"
    yield seen.found(title, detail, {"calls": calls, "host_ns": host_ns}, rows)
