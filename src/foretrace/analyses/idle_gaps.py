"""Time in which the GPU did nothing, by cause.

What it shows: how much of the recorded steps the GPU was idle, and what the host did meanwhile:
waiting for the GPU, issuing ops too slowly, copying, busy outside any op, or held up by the
profiler itself.

Why it matters: no faster kernel wins back idle time. The largest cause decides the repair: fewer
waits, CUDA graphs or larger work, pinned memory, a faster data loader, or a longer warm-up of the
profiler.

How it is computed: see `foretrace.model.idle`. Each gap between GPU operations has one cause. It
follows from where the next launch lies and what the host did before it. The saving is at most all
idle time of a step.

When it is wrong: the profiler makes every op and launch slower, so a trace shows more idle time
than a run without it. Host threads are taken together: an op on another thread can hide that the
launching thread did nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyses._common import ids, listing, per
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule
from foretrace.units import percent_text, plural, time_text

# Below this share the GPU counts as busy: recorded 4096 x 4096 products, back to back, leave 2%.
WORTH_TELLING = 0.05
WORTH_NAMING = 0.02  # of the idle time: smaller causes are in the evidence
WORDS = {
    "sync": "after the host waited for the GPU",
    "queue": "while launched work waited in the queue",
    "capture": "while the host captured a CUDA graph",
    "profiler": "while the profiler did its own work",
    "copy": "while the host copied data",
    "launch": "while the host issued ops",
    "host": "while the host ran no op",
    "unknown": "before a GPU operation whose launch is not in the trace",
}


def _check(trace: Trace) -> Iterator[Finding]:
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
    span = "the steps" if steps else "the time"
    title = f"The GPU is idle for {percent_text(share)} of {span}, mostly {WORDS[causes[0][0]]}"
    window = "from the first GPU operation on"
    if steps:
        window = "a step counts from its start on the host to the end of its last GPU operation"
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
    events = ids(trace.gpu.id[longest[longest >= 0]])
    yield Finding(RULE.name, "found", title, detail, evidence, events, step(total))


RULE = Rule("idle_gaps", "Time in which the GPU did nothing", _check, ("gpu",))
