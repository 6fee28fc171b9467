"""Time in which the GPU did nothing, by cause.

What it shows: how much of the recorded steps the GPU was idle, and what the host did meanwhile:
waiting for the GPU, issuing ops too slowly, copying, busy outside any op, or held up by the
profiler itself.

Why it matters: no faster kernel wins back idle time. The largest cause decides the repair: fewer
waits, CUDA graphs or larger work, pinned memory, a faster data loader, or a longer warm-up of the
profiler.

How it is computed: see `foretrace.model.idle`. Each gap between GPU operations has one cause. It
follows from where the next launch lies and what the host did before it. What follows that launch is
time in the queue. The figures are those of the step with the median idle time, so the first step,
which fills the queue, does not count. The saving is at most the idle time of that step without the
time in the queue, and at most what the run record beside the trace leaves of it.

When it is wrong: the profiler makes every op and launch slower, so a trace shows more idle time
than a run without it. Host threads are taken together: an op on another thread can hide that the
launching thread did nothing. Where the host made launches without a GPU event (captured into a
graph, or lost), the trace does not tell whether the GPU was idle, and that time is left out. While
launched work waits, the GPU may be busy with work that the profiler did not record.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyses._common import bare, ids, listing, per
from foretrace.analyses._idle import (
    host_note,
    limited,
    typical_idle,
    unproven,
    untold,
)
from foretrace.model import wall
from foretrace.model.idle import CAUSES, Idle
from foretrace.model.intervals import Bools
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule
from foretrace.units import percent_text, plural, time_text

# Below this share the GPU counts as busy: recorded 4096 x 4096 products, back to back, leave 2%.
WORTH_TELLING = 0.05
LONG = 0.25  # of the idle time: one gap that is worth a sentence
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
# Work that the profiler did not record may have run meanwhile.
UNPROVEN = frozenset({"queue", "unknown"})
NO_OPS = "before the next operation was launched"  # where the trace has no ops to tell more
# The other causes have a rule of their own, or a repair that the trace cannot name.
REPAIRS = {"host": "profile the host code between the ops (with_stack=True)"}


def _check(trace: Trace) -> Iterator[Finding]:
    if nothing := untold(trace, RULE):
        yield nothing
        return
    idle = typical_idle(trace)
    proven = ~unproven(trace, idle)
    length, total = idle.length[proven], int(idle.length[proven].sum())
    share = total / max(idle.window_ns - int(idle.length[~proven].sum()), 1)
    if share < WORTH_TELLING:
        return
    by_cause = {cause: int(length[idle.of(cause)[proven]].sum()) for cause in CAUSES}
    causes = sorted(by_cause.items(), key=lambda item: (-item[1], item[0]))
    words = WORDS if trace.host.is_op.any() else WORDS | {"host": NO_OPS, "launch": NO_OPS}
    lines = [
        f"{time_text(ns)} {words[cause]}" for cause, ns in causes if ns >= WORTH_NAMING * total
    ]
    steps = "a step" if trace.order.steps else "the time"
    cause = causes[0][0]
    what = "The trace shows no GPU work for" if cause in UNPROVEN else "The GPU is idle for"
    title = f"{what} {percent_text(share)} of {steps}, mostly {words[cause]}"
    saved = limited(trace, total - by_cause["queue"])
    limit = wall.idle_limit_ns(trace)
    real = saved if limit is None else limit
    real /= max(idle.window_ns - int(idle.length.sum()) + real, 1)
    if limit is not None:
        title += f"; without the profiler for at most {percent_text(real)}"
    gaps = len(np.unique(idle.end[proven]))
    count, by = plural(gaps, "gap"), "each by what takes most of it"
    detail = f"{time_text(total)} {per(trace)} in {count}, {by}: {listing(lines)}. "
    detail += f"{_longest(trace, idle, proven)}{host_note(trace)}"
    evidence = {
        "idle_ns": total,
        "share": round(share, 4),
        "gaps": gaps,
        "longest_ns": int(length.max()),
        "causes": {cause: ns for cause, ns in causes if ns},
    }
    longest = idle.then[proven][np.argsort(-length, kind="stable")]
    events = ids(trace.gpu.id[longest[longest >= 0]])
    repair = REPAIRS.get(cause, "") if words is WORDS and real >= WORTH_TELLING else ""
    yield Finding(RULE.name, "found", title, detail, evidence, events, saved or None, repair)


def _longest(trace: Trace, idle: Idle, proven: Bools) -> str:
    """A gap that takes much of the idle time, and what was launched after it."""
    length = np.where(proven & ~idle.of(*UNPROVEN), idle.length, 0)
    at = int(np.argmax(length))
    alone = len(length) > 1 and length[at] > LONG * idle.length[proven].sum()
    row = int(idle.then[at])
    if not alone or row < 0 or trace.gpu.op[row] < 0:
        return ""
    op = trace.host.names[trace.host.name[trace.gpu.op[row]]]
    return f"The longest, {time_text(int(length[at]))}, ends with a launch of {bare(op)}. "


RULE = Rule("idle_gaps", "Time in which the GPU did nothing", _check, ("gpu",))
