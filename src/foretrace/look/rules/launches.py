"""Why the GPU does nothing: waits, launches, streams and communication."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from foretrace.base.arrays import distinct
from foretrace.base.units import listing, percent_text, plural, time_text, times_text
from foretrace.look.rules import LISTED, Facts, Found, Seen, bare, rule
from foretrace.trace import bounds
from foretrace.trace.idle import Idle
from foretrace.trace.intervals import IntervalUnion, Ints, split_by
from foretrace.trace.recording import is_view
from foretrace.trace.trace import Trace
from foretrace.work import families

# Below this share the GPU counts as busy: recorded 4096 x 4096 matmuls, back to back, leave 2%.
WORTH_TELLING = 0.05
WORTH_NAMING = 0.02  # of the idle time: smaller causes are in the evidence
IDLE_CAUSES = {
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
def idle_gaps(seen: Seen) -> Found:
    """Time in which the GPU did nothing, by cause.

    What it shows: how much of the recorded steps the GPU was idle, and what the host did meanwhile:
    waiting for the GPU, issuing ops too slowly, copying, busy outside any op, or held up by the
    profiler itself.

    Why it matters: no faster kernel wins back idle time. The largest cause decides the fix: fewer
    waits, CUDA graphs or larger work, pinned memory, a faster data loader, or a longer warm-up of
    the profiler.

    How it is computed: each gap between GPU operations has one cause. It follows from where the
    next launch lies and what the host did before it. What follows that launch is time in the queue.
    The figures are those of the step with the median idle time, so the first step, which fills the
    queue, does not count. What less Python and a DataLoader with workers save is predicted by the
    fixes `python_time` and `data_loader`.

    When it is wrong: the profiler makes every op and launch slower, so a trace shows more idle time
    than a run without it. Host threads are taken together: an op on another thread can hide that
    the launching thread did nothing. Where the host made launches without a GPU event (captured
    into a graph, or lost), the trace does not tell whether the GPU was idle, and that time is left
    out. While launched work waits, the GPU may be busy with work that the profiler did not record.
    """
    if nothing := seen.untold():
        yield nothing
        return
    idle = seen.idle.only(seen.proven())
    total = int(idle.length.sum())
    share = total / max(idle.window_ns, 1)
    if share < WORTH_TELLING:
        return
    causes = sorted(idle.by_cause().items(), key=lambda item: (-item[1], item[0]))
    words = (
        IDLE_CAUSES if seen.host.is_op.any() else IDLE_CAUSES | {"host": NO_OPS, "launch": NO_OPS}
    )
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
    unseen = (
        cause == "host" and words is IDLE_CAUSES and "with_stack" not in seen.trace.about.options
    )
    stacks = "with_stack=True records what Python ran meanwhile. " if unseen else ""
    detail = (
        f"{time_text(total)} {seen.per} in {plural(gaps, 'gap')}: {listing(lines)}. "
        f"{_longest_gaps(seen, idle)}{stacks}{seen.host_note()}"
    )
    evidence: Facts = {"idle_ns": total, "share": round(share, 4), "gaps": gaps}
    evidence |= {"longest_ns": int(idle.length.max()), "causes": dict(causes)}
    longest = idle.then[np.argsort(-idle.length, kind="stable")]
    yield seen.found(title, detail, evidence, seen.gpu.id[longest[longest >= 0]], gaps=idle)


def _longest_gaps(seen: Seen, idle: Idle) -> str:
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


WAIT_FIXES = """
anomaly_mode boolean_mask grad_scaler pinned_copies reduce_on_gpu scalar_reads small_copies
synchronize
"""


@rule("Places where the host waits for the GPU", "gpu ops clock", fixes=WAIT_FIXES, example="llama")
def sync_stalls(seen: Seen) -> Found:
    """Places where the host waits for the GPU.

    What it shows: calls inside the steps that return only when the GPU has caught up
    (`cudaStreamSynchronize`, `cudaMemcpy`), by the op that makes them: `item`, `nonzero`, a copy to
    the host. Also how long the GPU was idle afterwards, because nothing had been queued.

    Why it matters: a waiting host launches nothing, so the GPU runs out of work and stays idle
    until the host has launched again. One `.item()` per step for a log line is enough.

    How it is computed: wait calls inside the steps (without steps: those with launches after them),
    and the idle time after them until more work was launched. What it saves not to wait is
    predicted by the fixes for each cause: a read of numbers, a boolean mask, a copy,
    `synchronize()`.

    When it is wrong: a wait that a program needs (to pass a result to the host) can only be moved,
    not dropped. A wait inside a library call that the profiler does not show is not seen.
    """
    host, waits = seen.host, _waits(seen)
    if not len(waits):
        return

    def name(call: int, op: int) -> str:
        made = f"{host.names[host.name[op]]}: " if op >= 0 else ""
        return f"{made}{host.names[host.name[call]]}"

    makers = host.nearest_op(host.parent[waits])
    names = Counter(map(name, waits.tolist(), makers.tolist()))
    idle = seen.idle
    after = idle.length * (idle.of("sync") & (idle.then >= 0) & seen.proven())
    lost = seen.limited(after.sum())
    waited, count = seen.step(int(host.length[waits].sum())), seen.each(len(waits))
    calls = {name: seen.each(number) for name, number in names.most_common(LISTED)}
    then = f"the GPU is then idle for {time_text(lost)}" if lost else "no GPU time is lost by it"
    title = f"The host waits for the GPU {times_text(count)} {seen.per}; {then}"
    listed = listing([f"{name} ({number:g})" for name, number in list(calls.items())[:3]])
    detail = f"Calls: {listed}. The host waits {time_text(waited)} {seen.per}. "
    detail += seen.host_note() if lost else "The next work was already queued, or none followed."
    evidence = {"waits": count, "waited_ns": waited, "idle_ns": lost, "calls": calls}
    yield seen.found(title, detail, evidence, np.sort(waits), gaps=idle.only(after > 0))


def _waits(seen: Seen) -> Ints:
    """Waits that something follows: in a step, or, without steps, before the last launch."""
    host = seen.host
    waits = np.flatnonzero(host.is_wait & host.lasting)
    if seen.order.steps:
        return seen.inside_steps(waits)
    launches = host.start[host.is_launch]
    return waits[host.end[waits] <= launches.max()] if len(launches) else waits[:0]


@rule("Kernels that CUDA graphs launched", "gpu", example="llama_decode_cuda_graph_2layers")
def graph_launches(seen: Seen) -> Found:
    """Kernels that CUDA graphs launched.

    What it shows: graph launches, how many kernels each of them launched, and how much of the GPU
    time came that way.

    Why it matters: a graph replays kernels at a fraction of the host cost, which fixes launch-bound
    steps. But its kernels have no ops above them in a trace, so shapes, FLOP and bytes of what a
    graph ran are unknown.

    How it is computed: GPU operations whose launching call is a graph launch.

    When it is wrong: a profiler that records graphs as one entry hides their kernels. Then the
    counts are too low.
    """
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
def launch_bound(seen: Seen) -> Found:
    """Steps that are host-bound.

    What it shows: steps in which the GPU is idle for more than half of the time because the host
    does not issue work fast enough: how many launches a step has, how far apart they are, how long
    a kernel takes, and how often the GPU had nothing queued when a launch came.

    Why it matters: faster kernels gain nothing here. Larger batches, fewer and larger kernels, or a
    CUDA graph do: a graph replays all kernels of a step with one launch
    (`torch.compile(mode="reduce-overhead")`). A step can never be shorter than its GPU time.

    How it is computed: idle time of the step with the median idle time, in gaps below 3 ms that
    began with the host inside or between ops, up to the launch that ended them. Idle time while
    launched work waits in the queue does not count. Neither does time in which the host made
    launches that have no GPU event: those were captured into a graph, or their events were lost.
    Steps whose GPU time comes from graph launches are left out. What a graph saves is predicted by
    the fix `cuda_graph`.

    When it is wrong: the profiler lengthens every op and launch, so a step that is host-bound in
    the trace may be less so without it; only a run record tells.
    """
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
    launches, facts = _slow_launches(seen)
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


def _slow_launches(seen: Seen) -> tuple[Ints, dict[str, Any]]:
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


VIEWS_NAMED = 8  # the names that fit one line of the detail


@rule("Ops that only change shapes and strides", "gpu ops", example="llama_train_eager")
def metadata_only(seen: Seen) -> Found:
    """Ops that only change shapes and strides.

    What it shows: calls of `aten::t`, `transpose`, `view`, `reshape`, `as_strided`, `_unsafe_view`
    and similar ops that launched nothing on the GPU: they write a new shape and new strides and
    return.

    Why it matters: they look like work in a profiler table but do none. They cost host time, a few
    microseconds each, which counts only while the GPU waits for the host. `torch.compile` resolves
    them once, at compile time.

    How it is computed: the calls of ops from a list of view ops below which no kernel, copy or fill
    was launched. Those inside the capture of a CUDA graph run once for all replays, so they are
    left out. Their time is the median of the steps after the first, which is cold in many
    recordings.

    When it is wrong: `contiguous`, `reshape` and `to` are on the list and counted only in calls
    that launched nothing. A custom op that returns a view is not on it. Part of the host time is
    profiler overhead.
    """
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
    more = [f"{len(names) - VIEWS_NAMED} more"] if len(names) > VIEWS_NAMED else []
    title = f"{plural(sum(calls.values()), 'op call')} {seen.per} only for shapes and strides"
    spent, shown = (
        f"{time_text(host_ns)} of host time {seen.per}",
        listing(names[:VIEWS_NAMED] + more),
    )
    detail = f"{shown} launched nothing and took {spent}. {seen.host_note()}"
    yield seen.found(title, detail, {"calls": calls, "host_ns": host_ns}, rows)


# A stream with less than this share of the kernel time gains too little to be worth telling.
LEAST_SHARE = 0.05
# Edges of kernels touch: on an H200 two matmuls that fill the card overlap by 7% at their ends,
# streams that wait for each other by nothing at all.
NO_OVERLAP = 0.01
SHARED_DATA = "data that one stream needs of the other"


@rule("Streams that never overlap", "gpu launches clock", realised=0.25, first=SHARED_DATA)
def serial_streams(seen: Seen) -> Found:
    """Streams whose kernels never run at the same time.

    What it shows: a program that uses several streams, and none of their kernels overlap. For each
    change from one stream to another it says which came first: the launch of the next kernel, or
    the end of the one before.

    Why it matters: streams without overlap cost events and waits and save nothing. Either each
    waits for the other, or a kernel fills the card, or the host launches the second when the first
    is done.

    How it is computed: streams of one device with at least 5% of the kernel time each, collectives
    and kernels of graphs left out. Overlap is the sum of their busy times less the time in which
    any of them is busy; below 1% of the smaller one it counts as none. Where kernels waited at most
    of the changes, the saving is at most the busy time of all streams but the longest; where the
    host came late, it is not known.

    When it is wrong: if one stream needs the result of the other, they cannot overlap. Two kernels
    that each fill the card gain little from overlap.
    """
    gpu = seen.gpu
    kernels = np.zeros(len(gpu), bool)
    kernels[seen.order.row[seen.order.counts]] = True
    chosen = kernels & gpu.usable & ~gpu.in_graph & (seen.trace.work_roles != "comms")
    for mine in split_by(gpu.device_number[chosen], np.flatnonzero(chosen)):
        yield from _streams_of(seen, mine)


def _streams_of(seen: Seen, rows: Ints) -> Found:
    gpu, total = seen.gpu, int(seen.gpu.length[rows].sum())
    lanes = split_by(gpu.lane[rows], rows)
    lanes = [mine for mine in lanes if gpu.length[mine].sum() >= LEAST_SHARE * total]
    if len(lanes) < 2:
        return
    rows = np.sort(np.concatenate(lanes))
    busy = sorted(gpu.busy(mine) for mine in lanes)
    if sum(busy) - gpu.busy(rows) > NO_OVERLAP * busy[0]:
        return
    if sum(busy[:-1]) < 0.01 * seen.trace.idle.window_ns:  # of the time of the steps
        return
    # changes of stream: those with the next kernel launched before the change, and the others
    behind = np.flatnonzero(np.diff(gpu.lane[rows]) != 0) + 1
    linked = behind[gpu.launch[rows[behind]] >= 0]
    early = gpu.launched[rows[linked]] < gpu.end[rows[linked - 1]]
    waits, saved = 2 * int(early.sum()) > len(linked), seen.step(sum(busy[:-1]))
    changes, queued, late = map(seen.each, (len(linked), int(early.sum()), int((~early).sum())))
    streams = sorted({int(stream) for stream in gpu.stream[rows].tolist()})
    advice = (
        f"If neither needs the other, overlap saves at most {time_text(saved)} {seen.per}."
        if waits
        else "Streams gain nothing before the host launches sooner."
    )
    title = f"{plural(len(lanes), 'stream')} never overlap"
    detail = (
        f"Streams {', '.join(map(str, streams))} take turns: {changes} changes "
        f"{seen.per}. At {queued} of them the next kernel was launched and waited; "
        f"at {late} the host launched it after the other stream was done. {advice}"
    )
    evidence: Facts = {"streams": streams, "busy_ns": [seen.step(each) for each in busy]}
    evidence |= {"waited": queued, "launched_late": late}
    fix = "remove waits between the streams that no data needs" if waits else ""
    yield seen.found(title, detail, evidence, gpu.id[rows], saved if waits else None, fix)


EXPOSED = "Communication that does not overlap with computation"


@rule(EXPOSED, "gpu", realised=0.25, first="ranks that arrive late")
def exposed_comms(seen: Seen) -> Found:
    """Communication that does not overlap with computation.

    What it shows: time in which collectives ran and no other kernel did, on the same device.

    Why it matters: communication that overlaps with computation is free. The rest is what scaling
    costs. Larger buckets, another order of layers, or fewer and larger collectives hide more of it.
    A collective also waits for the slowest rank: not all of its time is transfer.

    How it is computed: the union of collective kernels, less the union of all other GPU operations
    on their device. The saving is at most that.

    When it is wrong: in the trace of one rank, waiting for another rank and moving data look the
    same. Overlap does not mean that both ran at full speed.
    """
    gpu, works = seen.gpu, seen.trace.work_roles != "comms"
    talking = seen.counted & gpu.usable & ~works
    total = alone = 0  # time with a collective running, and the part in which nothing else ran
    for rows in split_by(gpu.device_number[gpu.usable], np.flatnonzero(gpu.usable)):
        mine, rest = rows[talking[rows]], rows[works[rows]]
        comms = IntervalUnion(gpu.start[mine], gpu.end[mine])
        other = IntervalUnion(gpu.start[rest], gpu.end[rest])
        length = comms.end - comms.start
        total += int(length.sum())
        alone += int((length - other.between(comms.start, comms.end)).sum())
    if not alone:
        return
    exposed, events = seen.step(alone), gpu.id[talking]
    count, share = seen.each(len(events)), round(alone / total, 4)
    title = f"{time_text(exposed)} of communication {seen.per} without overlap"
    detail = (
        f"{plural(count, 'collective')} {seen.per}: {time_text(seen.step(total))}. "
        f"{percent_text(share)} of it overlaps with no other GPU operation. Part of it may be "
        "waiting for other ranks."
    )
    evidence = {"collectives": count, "ns": seen.step(total)}
    evidence |= {"exposed_ns": exposed, "exposed_share": share}
    fix = "overlap the collectives with computation"
    yield seen.found(title, detail, evidence, events, exposed, fix)


@rule(
    "GPU operations without a launch in the trace", "gpu", example="llama_decode_cuda_graph_2layers"
)
def unlinked_work(seen: Seen) -> Found:
    """GPU operations without a launch in the trace.

    What it shows: kernels, memcpys and memsets whose launching call was not recorded: how many, how
    long, which.

    Why it matters: they belong to no op and no step, so every figure per step or per region leaves
    them out. Most were queued before the recording began: the profiler started while the GPU was
    still busy.

    How it is computed: GPU events whose correlation id no runtime or driver call carries. A stream
    runs in order, so what ran before its first recorded launch was launched before the recording.

    When it is wrong: the count is certain. The trace holds their names, but not what they were for.
    Wait for the GPU before the profiler starts (`torch.cuda.synchronize()`), or give the schedule a
    `warmup` step.
    """
    gpu, host = seen.gpu, seen.host
    rows = np.flatnonzero(gpu.launch < 0)
    if not len(rows):
        return
    ns = int(gpu.length[rows].sum())
    share = round(ns / max(int(gpu.length.sum()), 1), 4)
    early = int(gpu.before_recording.sum()) if host.is_launch.any() else None
    names = [host.names[name] for name in host.name[gpu.id[rows]].tolist()]
    shorts = Counter(families.decode(name).short for name in names)
    before = f" ({early:,} launched before the recording)" if early else ""
    often = listing([name for name, _ in shorts.most_common(3)])
    title = f"{plural(len(rows), 'GPU operation')} without a launch in the trace"
    spent = f"{time_text(ns)}, {percent_text(share)} of GPU time"
    detail = f"{spent}, outside every step and op{before}. Most often: {often}."
    evidence = {"count": len(rows), "ns": ns, "share": share, "before_first_launch": early}
    yield seen.found(title, detail, evidence, gpu.id[rows])
