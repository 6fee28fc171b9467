"""When no work ran on a GPU, and what the host was doing meanwhile.

A gap lasts from the end of one operation to the start of the next. It has up to two parts. The
second, from the launch of the next on, is the queue's; where it is the longer one, all of the gap
is. The first goes to the first cause that fits:

    sync      the host was waiting for the GPU when it ran dry, or for most of the time until the
              next launch
    unknown   the launch of the next work is not in the trace, or its clock is another
    capture   for most of that time the host was capturing a CUDA graph: what is launched then runs
              nothing
    profiler  the profiler was at work on itself (buffer requests, lazy loading)
    copy      the host was inside a copy or a fill
    launch    the host was inside ops and launch calls
    host      the host was in no op: Python between ops, data loading, logging

Totals by cause divide the time of `launch` and `host` as measured, to the nanosecond; `idle_pieces`
cuts gaps at those moments, so that the pieces of any range add up to the same.

`trace.gaps` has the gaps of the whole recording. `trace.idle` has those of the steps, each in its
window (`Spans.window`), or without steps those between the first and the last GPU work. The time
before the first GPU operation fills the pipeline once: it counts only where there is one step.
With several devices each has gaps of its own; times are summed over devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.arrays import distinct
from foretrace.trace.host import COPIES, HOST_KINDS
from foretrace.trace.intervals import Bools, IntervalUnion, Ints, split_by
from foretrace.trace.recording import Recording
from foretrace.trace.spans import Span

CAUSES = ("sync", "queue", "capture", "profiler", "copy", "launch", "host", "unknown")
QUEUE = CAUSES.index("queue")
# What a launch takes to reach an idle GPU after the call returned. On recorded traces: H200, B200,
# H100 and A100 at most 10 us, MI300X at most 84 us.
LATENCY_NS, LATENCY_AMD_NS = 20_000, 100_000
# On 150 recorded traces no wait of 1 ms or more is without GPU work for more than 0.2 of it, but
# for one whose work was launched before the recording (0.99).
UNSEEN_NS, UNSEEN_SHARE, MOSTLY = 1_000_000, 0.1, 0.9


class Idle(Struct, frozen=True):
    """One row per part of a gap; `cause` is a place in CAUSES, `device` a `Gpu.device_number`.

    `then` is the row of `gpu` that ended the gap, or -1. `issuing` is how long the host was inside
    ops and calls meanwhile. `window_ns` is the whole time that was looked at.
    """

    start: Ints
    end: Ints
    cause: Ints
    then: Ints
    device: Ints
    issuing: Ints
    window_ns: int

    @property
    def length(self) -> Ints:
        """How long each part lasts."""
        return self.end - self.start

    def by_cause(self) -> dict[str, int]:
        """Idle time by cause, the causes that occur; ops and the time between them as measured."""
        total = np.bincount(self.cause, weights=self.length, minlength=len(CAUSES)).astype(np.int64)
        by_cause = {cause: int(total[at]) for at, cause in enumerate(CAUSES)}
        inside = int(self.issuing[self.of("launch", "host")].sum())
        by_cause["host"] += by_cause["launch"] - inside
        by_cause["launch"] = inside
        return {cause: ns for cause, ns in by_cause.items() if ns}

    def only(self, chosen: Bools) -> Idle:
        """Some of the parts; the others belong to no window."""
        names = ("start", "end", "cause", "then", "device", "issuing")
        kept = {name: getattr(self, name)[chosen] for name in names}
        return replace(self, **kept, window_ns=self.window_ns - int(self.length[~chosen].sum()))

    def of(self, *causes: str) -> Bools:
        """Which parts have one of these causes."""
        return np.isin(self.cause, [CAUSES.index(cause) for cause in causes])


class Spent(Struct, frozen=True):
    """Where the time of a step or call goes, summed over the devices that it uses.

    `queued_ns` is idle time in which launched work waited long in the queue. `profiled` is False
    where a run record gave the wall time.
    """

    wall_ns: float
    busy_ns: int
    queued_ns: int
    idle_by_cause: dict[str, int]
    profiled: bool = True

    @property
    def recorded_ns(self) -> int:
        """The time in the recording, whatever a run record says."""
        return self.busy_ns + self.idle_ns

    @property
    def idle_ns(self) -> int:
        """The idle time in the recording."""
        return sum(self.idle_by_cause.values())

    @property
    def idle_share(self) -> float:
        """Share of the wall time in which the GPUs were idle."""
        return max(1.0 - self.busy_ns / self.wall_ns, 0.0) if self.wall_ns > 0 else 0.0

    @property
    def idle_bound(self) -> str:
        """What an idle GPU waits for: host, sync, or unknown."""
        kinds = {"sync": "sync", "unknown": "unknown", "capture": "unknown"}
        causes = Counter({"unknown": self.queued_ns, "host": -self.queued_ns})
        for cause, ns in self.idle_by_cause.items():
            causes[kinds.get(cause, "host")] += ns
        return max(causes, key=lambda kind: (causes[kind], kind), default="host")


HostTime = dict[str, IntervalUnion]  # by cause: when the host was seen doing what explains it


class Gaps:
    """All gaps of a recording, to be asked about any stretch of time."""

    def __init__(self, trace: Recording) -> None:
        host, aligned, lag = trace.host, trace.gpu.aligned, trace.gpu.lag

        def covered(chosen: Bools) -> IntervalUnion:
            waits = chosen & host.lasting & aligned  # by another clock, it says nothing about a gap
            return IntervalUnion(host.start[waits] + lag, host.end[waits] + lag)

        self.trace = trace
        # in the order in which they are tried, by the GPU's clock
        doing = {
            "sync": covered(host.is_wait),
            "capture": IntervalUnion(host.captures.start + lag, host.captures.end + lag),
            "profiler": covered(host.is_kind("overhead")),
            "copy": covered(host.is_call & host.named(COPIES.fullmatch)),
            "launch": covered((host.is_op | host.is_call) & ~host.is_wait),
        }
        self.issuing = doing["launch"]  # when the host was inside ops and calls, and not waiting
        limits, rows = _limits(trace), enumerate(trace.gpu.rows_by_device)
        parts = [_device(trace, number, mine, limits) for number, mine in rows if len(mine)]
        empty = np.empty(0, np.int64)
        start, end, then, device = (
            np.concatenate([empty, *(part[at] for part in parts)]) for at in range(4)
        )
        none = np.zeros_like(start)
        self.every = _split(trace, doing, Idle(start, end, none, then, device, none, 0))

    def inside(self, windows: Sequence[tuple[int, int, int]]) -> Idle:
        """The gaps inside these windows: device, start and end of each."""
        every, rows, start, end = self.every, [], [], []
        for device, begin, finish in windows:
            here = slice(*self._places[device])
            low = here.start + int(np.searchsorted(every.end[here], begin, side="right"))
            high = here.start + int(np.searchsorted(every.start[here], finish, side="left"))
            rows.append(np.arange(low, max(high, low)))
            start.append(np.maximum(every.start[low:high], begin))
            end.append(np.minimum(every.end[low:high], finish))
        at = np.concatenate([np.empty(0, np.int64), *rows])
        first, last = (np.concatenate([np.empty(0, np.int64), *part]) for part in (start, end))
        issuing = self.issuing.between(first, last)
        length = sum(finish - begin for _, begin, finish in windows)
        return Idle(first, last, every.cause[at], every.then[at], every.device[at], issuing, length)

    @cached_property
    def typical(self) -> Idle | None:
        """The gaps of the step with the median idle time; None where no step used a GPU."""
        windows = [windows_of(self.trace, span) for span in self.trace.spans.steps]
        found = [self.inside(mine) for mine in windows if mine]
        found.sort(key=lambda idle: int(idle.length.sum()))
        return found[(len(found) - 1) // 2] if found else None

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        """The rows of each device."""
        numbers = np.arange(len(self.trace.gpu.covered) + 1)
        return list(pairwise(np.searchsorted(self.every.device, numbers).tolist()))


def find(trace: Recording, gaps: Gaps) -> Idle:
    """The gaps of the steps; without steps, those between the first and the last GPU work."""
    windows = []
    several = len(trace.spans.steps) > 1
    for span in trace.spans.steps:
        for device, begin, end in windows_of(trace, span):
            first = int(trace.gpu.covered[device].start[0])
            start = max(begin, first) if several else begin
            windows.append((device, min(start, end), end))
    if not windows:
        windows = [
            (device, int(busy.start[0]), int(busy.end[-1]))
            for device, busy in enumerate(trace.gpu.covered)
            if len(busy.start)
        ]
    return gaps.inside(windows)


def spent_in(idle: Idle) -> Spent:
    """The time of a stretch whose gaps are known."""
    queued = int(idle.length[idle.of("queue") & (idle.length > LATENCY_NS)].sum())
    busy = idle.window_ns - int(idle.length.sum())
    return Spent(idle.window_ns, busy, queued, idle.by_cause())


def windows_of(trace: Recording, span: Span) -> list[tuple[int, int, int]]:
    """The window of a step or call on each device that it uses.

    Where host and GPU have different clocks, it is the time of the GPU work.
    """
    gpu = trace.gpu
    mine = span.work[gpu.usable[span.work]]
    if not gpu.aligned:
        numbers = gpu.device_number[mine]
        return [
            (int(gpu.device_number[row[0]]), int(gpu.start[row].min()), int(gpu.end[row].max()))
            for row in split_by(numbers, mine)
        ]
    begin, end = trace.spans.window(span)
    one = len(gpu.covered) == 1  # nearly always, and a step has thousands of rows
    used = [0] * bool(len(mine)) if one else distinct(gpu.device_number[mine]).tolist()
    return [(device, begin, end) for device in used]


def _device(
    trace: Recording, number: int, rows: Ints, limits: tuple[int, int]
) -> tuple[Ints, Ints, Ints, Ints]:
    """The gaps of one device, those before its first and after its last work included."""
    gpu, busy, (begin, finish) = trace.gpu, trace.gpu.covered[number], limits
    start = np.concatenate(([min(begin, int(busy.start[0]))], busy.end))
    end = np.concatenate((busy.start, [max(finish, int(busy.end[-1]))]))
    found = np.searchsorted(gpu.start[rows], busy.start)  # gpu rows are in time order
    return start, end, np.append(rows[found], -1), np.full(len(start), number, np.int64)


def _limits(trace: Recording) -> tuple[int, int]:
    """From the first step, or else the first host event, to the end of the last."""
    host = trace.host
    rows = np.flatnonzero(host.lasting & host.is_kind(*HOST_KINDS))
    if not len(rows) or not trace.gpu.aligned:
        return np.iinfo(np.int64).max, np.iinfo(np.int64).min
    begins = [span.start_ns for span in trace.spans.steps] or [int(host.start[rows].min())]
    return min(begins) + trace.gpu.lag, int(host.end[rows].max()) + trace.gpu.lag


def _split(trace: Recording, doing: HostTime, gaps: Idle) -> Idle:
    """Each gap until its next work is launched, with its cause, and the time in the queue."""
    if not len(gaps.start):
        return gaps
    host, launch = trace.host, trace.gpu.launch[np.maximum(gaps.then, 0)]
    known = (gaps.then >= 0) & (launch >= 0) & trace.gpu.aligned
    call = np.maximum(launch, 0)
    began, ended = host.start[call] + trace.gpu.lag, host.end[call] + trace.gpu.lag
    launched = np.where(known, began, gaps.end)
    waiting = host.is_wait[call]
    latency = LATENCY_AMD_NS if (trace.about.arch or "").startswith("gfx") else LATENCY_NS
    arrives = np.where(waiting, began, ended) + latency
    arrives = np.where(launched <= gaps.start, gaps.start, arrives)  # it was in the queue already
    until = np.clip(np.where(known, arrives, gaps.end), gaps.start, gaps.end)
    # work that waited longer than the host took to launch it found the GPU busy: with what, the
    # trace does not say
    until = np.where(gaps.end - until > until - gaps.start, gaps.start, until)
    cause = _causes(trace, doing, gaps, known, np.clip(launched, gaps.start, gaps.end))
    queue = np.full_like(cause, QUEUE)
    start = np.stack((gaps.start, until), 1).reshape(-1)
    end = np.stack((until, gaps.end), 1).reshape(-1)
    both = np.stack((cause, queue), 1).reshape(-1)
    then, device = np.repeat(gaps.then, 2), np.repeat(gaps.device, 2)
    issuing = doing["launch"].between(start, end)
    parts = Idle(start, end, both, then, device, issuing, int((end - start).sum()))
    return parts.only(end > start)


def _causes(trace: Recording, doing: HostTime, gaps: Idle, known: Bools, until: Ints) -> Ints:
    """What the host did from the start of each gap until the next launch."""
    start, half = gaps.start, (until - gaps.start) / 2
    mostly = {cause: time.between(start, until) > half for cause, time in doing.items()}
    ran_dry = doing["sync"].holds(start) & (until > start)
    tests = {"sync": ran_dry | mostly["sync"], "unknown": (gaps.then >= 0) & ~known}
    tests |= {cause: mostly[cause] for cause in mostly if cause != "sync"}
    numbers = [CAUSES.index(cause) for cause in tests]
    return np.select(list(tests.values()), numbers, CAUSES.index("host"))


# not a cause but a doubt: the host made launches in the gap whose GPU work is not in the trace
UNPROVEN = len(CAUSES)
# GPUs of one file whose gaps are cut at launches: each has as many pieces as launches
MOST_CUT = 64
_LAUNCH, _HOST = CAUSES.index("launch"), CAUSES.index("host")


class IdlePieces(Struct, frozen=True):
    """By device, in order of time; pieces of one gap touch each other. `cause` is a place in
    CAUSES, or UNPROVEN.
    """

    start: Ints
    end: Ints
    cause: Ints
    device: Ints


def idle_pieces(trace: Recording, gaps: Gaps) -> IdlePieces:
    """All idle time of a recording, from its first step on."""
    every, issuing = gaps.every, gaps.issuing
    doubted = unproven(trace, every)
    cut = every.of("launch", "host") & ~doubted
    cause = np.where(doubted, UNPROVEN, every.cause)
    cut &= every.device < MOST_CUT
    parts = [(every.start[~cut], every.end[~cut], cause[~cut], every.device[~cut])]
    rows = np.flatnonzero(cut)
    for mine in split_by(every.device[rows], rows):
        start, end, inside = _cut(every.start[mine], every.end[mine], issuing)
        number = np.full(len(start), every.device[mine[0]], np.int64)
        parts.append((start, end, np.where(inside, _LAUNCH, _HOST), number))
    start, end, cause, number = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((start, number))
    return IdlePieces(start[order], end[order], cause[order], number[order])


def unrecorded_wait(trace: Recording) -> tuple[int, int] | None:
    """The host's longest wait (event, ns) for what the trace does not show, where it is long.

    The host waits for work on the GPU. Almost no GPU operation in that time: the work was launched
    before the recording, or its events are missing.
    """
    host, gpu = trace.host, trace.gpu
    waits = np.flatnonzero(host.is_wait & host.lasting)
    if not len(waits) or (len(gpu) and not gpu.aligned):
        return None
    seen = IntervalUnion(gpu.start[gpu.usable], gpu.end[gpu.usable])
    begin, end = host.start[waits] + gpu.lag, host.end[waits] + gpu.lag
    unseen = host.length[waits] - seen.between(begin, end)
    at = int(np.argmax(unseen))
    length, ns = int(host.length[waits[at]]), int(unseen[at])
    lasting = host.lasting & host.is_kind(*HOST_KINDS)
    least = UNSEEN_SHARE * int(host.end[lasting].max() - host.start[lasting].min())
    is_long = ns >= max(least, UNSEEN_NS) and ns >= MOSTLY * length
    return (int(waits[at]), ns) if is_long else None


def lost_launches(trace: Recording) -> Ints:
    """Launches without GPU work in the trace: captured into a graph, or their events were lost."""
    lost, launch = trace.host.is_launch & trace.host.timed, trace.gpu.launch
    lost[launch[launch >= 0]] = False
    return np.flatnonzero(lost)


def unproven(trace: Recording, idle: Idle) -> Bools:
    """Gaps in which the host made such launches: what they launched may have run in the gap."""
    made = np.sort(trace.host.start[lost_launches(trace)]) + trace.gpu.lag
    return np.searchsorted(made, idle.start) < np.searchsorted(made, idle.end)


def _cut(start: Ints, end: Ints, issuing: IntervalUnion) -> tuple[Ints, Ints, Bools]:
    """Stretches that do not overlap, in order, cut at the edges of `issuing`; which are inside."""
    edges = distinct(np.concatenate((start, end, issuing.start, issuing.end)))
    begin, finish = edges[:-1], edges[1:]
    kept = _within(start, end, begin, finish)
    begin, finish = begin[kept], finish[kept]
    return begin, finish, _within(issuing.start, issuing.end, begin, finish)


def _within(start: Ints, end: Ints, begin: Ints, finish: Ints) -> Bools:
    """Which stretches lie inside one of some others, that do not overlap."""
    if not len(start):
        return np.zeros(len(begin), bool)
    at = np.searchsorted(start, begin, side="right") - 1
    return (at >= 0) & (finish <= end[np.maximum(at, 0)])
