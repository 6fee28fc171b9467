"""Time in which the GPU did nothing, by cause.

What it shows: how much of the recorded steps the GPU was idle, and what the host did meanwhile:
waiting for the GPU, issuing ops too slowly, copying, busy outside any op, or held up by the
profiler itself.

Why it matters: no faster kernel wins back idle time. The largest cause decides the fix: fewer
waits, CUDA graphs or larger work, pinned memory, a faster data loader, or a longer warm-up of the
profiler.

How it is computed: each gap between GPU operations has one cause. It follows from where the next
launch lies and what the host did before it. What follows that launch is time in the queue. The
figures are those of the step with the median idle time, so the first step, which fills the queue,
does not count. What less Python and a DataLoader with workers save is predicted by the fixes
`python_time` and `data_loader`.

When it is wrong: the profiler makes every op and launch slower, so a trace shows more idle time
than a run without it. Host threads are taken together: an op on another thread can hide that the
launching thread did nothing. Where the host made launches without a GPU event (captured into a
graph, or lost), the trace does not tell whether the GPU was idle, and that time is left out. While
launched work waits, the GPU may be busy with work that the profiler did not record.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.arrays import distinct
from foretrace.base.units import percent_text, plural, time_text
from foretrace.look.rules._seen import Facts, Found, Seen, bare, listing, rule
from foretrace.trace import bounds
from foretrace.trace.idle import Idle

# Below this share the GPU counts as busy: recorded 4096 x 4096 matmuls, back to back, leave 2%.
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
# Work that the profiler did not record may have run meanwhile.
UNPROVEN = frozenset({"queue", "unknown"})
NO_OPS = "before the next operation was launched"  # where the trace has no ops to tell more


@rule(
    "Time in which the GPU did nothing",
    "gpu clock",
    fixes="data_loader python_time",
    example="llama_train_eager",
)
def _check(seen: Seen) -> Found:
    if nothing := seen.untold():
        yield nothing
        return
    idle = seen.idle.only(seen.proven())
    total = int(idle.length.sum())
    share = total / max(idle.window_ns, 1)
    if share < WORTH_TELLING:
        return
    causes = sorted(idle.by_cause().items(), key=lambda item: (-item[1], item[0]))
    words = WORDS if seen.host.is_op.any() else WORDS | {"host": NO_OPS, "launch": NO_OPS}
    told: dict[str, int] = {}  # two causes may have the same words
    for cause, ns in causes:
        told[words[cause]] = told.get(words[cause], 0) + ns
    lines = [f"{time_text(ns)} {word}" for word, ns in told.items() if ns >= WORTH_NAMING * total]
    steps = "a step" if seen.order.steps else "the time between its first and last work"
    cause = causes[0][0]
    what = "The trace shows no GPU work for" if cause in UNPROVEN else "The GPU is idle for"
    title = f"{what} {percent_text(share)} of {steps}, mostly {words[cause]}"
    if (limit := bounds.idle_limit_ns(seen.trace)) is not None:
        real = limit / max(idle.window_ns - total + limit, 1)
        title += f"; without the profiler for at most {percent_text(real)}"
    gaps = len(distinct(idle.end))
    unseen = cause == "host" and words is WORDS and "with_stack" not in seen.trace.about.options
    stacks = "with_stack=True records what Python ran meanwhile. " if unseen else ""
    detail = (
        f"{time_text(total)} {seen.per} in {plural(gaps, 'gap')}: {listing(lines)}. "
        f"{_longest(seen, idle)}{stacks}{seen.host_note()}"
    )
    evidence: Facts = {"idle_ns": total, "share": round(share, 4), "gaps": gaps}
    evidence |= {"longest_ns": int(idle.length.max()), "causes": dict(causes)}
    longest = idle.then[np.argsort(-idle.length, kind="stable")]
    yield seen.found(title, detail, evidence, seen.gpu.id[longest[longest >= 0]], gaps=idle)


def _longest(seen: Seen, idle: Idle) -> str:
    """The op that holds the longest gap, where that is most of the idle time: a set-up, mostly."""
    host, at = seen.host, int(np.argmax(idle.length))
    start, end = int(idle.start[at]), int(idle.end[at])
    if 2 * (end - start) < idle.length.sum() or len(idle.length) == 1:
        return ""
    inside = np.minimum(host.end, end) - np.maximum(host.start, start)
    rows = np.flatnonzero(host.is_op & host.lasting & (2 * inside > end - start))
    if not len(rows):
        return ""
    op = bare(host.names[host.name[rows[np.argmin(host.length[rows])]]])
    return f"The longest gap lasts {time_text(end - start)}, mostly inside {op}. "
