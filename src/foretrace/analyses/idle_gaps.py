"""Time in which the GPU did nothing, by cause.

What it shows: how much of the recorded steps the GPU stood idle, and what the host was doing
meanwhile: waiting for the GPU, issuing ops too slowly, copying, busy outside any op, or held up by
the profiler itself.

Why it matters: no kernel can be made fast enough to win back idle time. Which cause dominates
decides the remedy: fewer waits, CUDA graphs or larger work, pinned memory, a faster data loader, or
a longer warm-up of the profiler.

How it is computed: see `foretrace.model.idle`: each gap between pieces of GPU work has one cause,
told from where the launch of the next piece lies and what the host did before it. The saving is at
most all idle time of a step.

When it is wrong: the profiler makes every op and launch slower, so idle time in a trace is more
than without it. Host threads are taken together: an op on another thread can hide that the
launching one did nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from foretrace.analyses._common import ids, listing, per
from foretrace.schema.finding import Finding, Rule
from foretrace.units import percent_text, plural, time_text

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

# Below this share the GPU is as good as busy: the recorded 4096 x 4096 products, launched back to
# back, leave 2%.
WORTH_TELLING = 0.05
WORTH_NAMING = 0.02  # of the idle time: smaller causes are in the evidence
WORDS = {
    "sync": "after the host had waited for the GPU",
    "device": "between two pieces of work that were both launched",
    "profiler": "while the profiler served itself",
    "copy": "while the host was copying",
    "launch": "while the host was issuing ops",
    "host": "while the host was in no op",
    "unknown": "before work whose launch is not in the trace",
}


def check(trace: Trace) -> Iterator[Finding]:
    idle, step = trace.idle, trace.order.per_step
    total = int(idle.length.sum())
    share = total / idle.window_ns if idle.window_ns else 0.0
    if share < WORTH_TELLING:
        return
    causes = sorted(idle.by_cause().items(), key=lambda item: (-item[1], item[0]))
    lines = [
        f"{time_text(step(ns))} {WORDS[cause]}"
        for cause, ns in causes
        if ns >= WORTH_NAMING * total
    ]
    steps = bool(trace.order.steps)
    title = (
        f"The GPU is idle for {percent_text(share)} of "
        f"{'the steps' if steps else 'the time'}, mostly {WORDS[causes[0][0]]}"
    )
    window = (
        "a step counts from its start on the host to the end of its last GPU work"
        if steps
        else "from the first work on"
    )
    detail = (
        f"{time_text(step(total))} {per(trace)} in {plural(len(idle.start), 'gap')}: "
        f"{listing(lines)} ({window})."
    )
    evidence = {
        "idle_ns": step(total),
        "share": round(share, 4),
        "gaps": len(idle.start),
        "longest_ns": int(idle.length.max()),
        "causes": {cause: step(ns) for cause, ns in causes},
    }
    longest = idle.then[np.argsort(-idle.length, kind="stable")]
    yield Finding(
        RULE.name,
        "found",
        title,
        detail,
        evidence,
        ids(trace.gpu.id[longest[longest >= 0]]),
        step(total),
    )


RULE = Rule(
    name="idle_gaps",
    title="Time in which the GPU did nothing",
    check=check,
    needs=frozenset({"gpu"}),
)
