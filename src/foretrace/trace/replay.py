"""One step as a graph that can run again: when everything would happen if some of it changed.

The graph has the calls of the CUDA runtime in the order of their time, with the host's own time
before and inside each; the GPU work that each launches, in the queues of its streams; and what each
waiting call waited for. A call that returned no earlier than the work it launched waited for it,
whatever its name says: a copy from pageable memory does.

The host does one thing after another, on whatever thread. Work starts after its launch with the
delay that was recorded, and not before the work ahead of it in its stream, or that it was seen to
wait for in another stream, has ended. The time of a step is the distance of two of them, so a host
that runs ahead hides behind the GPU. `Precedence` computes the times from what follows what, here
and for the step of a job (`jobs/critical_path`). A collective keeps its time and its wait.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from foretrace.base.arrays import Bools, Floats, Ints
from foretrace.trace.intervals import IntervalUnion, split_by
from foretrace.trace.recording import Recording
from foretrace.trace.spans import Span

ROUNDS = 3  # of a step: the last two are apart by the time of a step
# A waiting call returns this long after what it waited for; less of it is the call's own time.
RETURN_NS = 5_000
HELD = 0.9  # of a copy: a call that lasts longer waits for it
# Work that starts this long after its launch and its stream allow waited for another stream.
LATE_NS = 4_000
PAUSE_NS = (500, 1_500)  # between two operations of one stream that were both in the queue
# What is left of a host time at the least when the profiler's part is taken off.
LEAST = 0.15


class ProfilerCost(Struct, frozen=True):
    """What the profiler adds to the host: ns for each op, call and Python function, and a step."""

    op: float = 0.0
    call: float = 0.0
    python: float = 0.0
    step: float = 0.0


# Fitted with `tools/fit_overhead.py` on an H200's host, torch 2.11.
COST = ProfilerCost(op=2_000, call=6_000, python=1_200, step=60_000)


class Precedence:
    """What each node of a graph follows, as edges from a `source` to a `node` of a higher number.

    Node 0 is the start. Any other happens as soon as all its sources allow: at the latest of their
    times, each with the cost of its edge.
    """

    def __init__(self, node: Ints, source: Ints) -> None:
        self._order = np.argsort(node, kind="stable")
        self.node, self.source = node[self._order], source[self._order]
        self._pairs = list(zip(self.node.tolist(), self.source.tolist(), strict=True))
        self._depth: Ints | None = None

    def times(self, costs: Floats) -> Floats:
        """When each node happens, for one cost of each edge."""
        at = [0.0] + [-np.inf] * int(self.node.max(initial=0))
        for (node, source), cost in zip(self._pairs, costs[self._order].tolist(), strict=True):
            if (then := at[source] + cost) > at[node]:
                at[node] = then
        return np.array(at)

    def times_of_each(self, costs: Floats) -> Floats:
        """The same for several columns of costs at once: nodes that the same number of others
        precede are computed together.
        """
        if self._depth is None:
            self._depth = self.times(np.ones(len(self.node))).astype(np.int64)
        at = np.zeros((len(self._depth), costs.shape[1]))
        level, costs = self._depth[self.node], costs[self._order]
        for edges in split_by(level, np.arange(len(level))):
            node = self.node[edges]
            first = np.flatnonzero(np.diff(node, prepend=-1))
            at[node[first]] = np.maximum.reduceat(at[self.source[edges]] + costs[edges], first)
        return at


class GraphChange(Struct, frozen=True):
    """What a fix changes in a step.

    Of the host time in `removed` (start and end of stretches), `left` remains, a share. `length`
    has new times of GPU work by its row in `gpu`; `gone` are rows that no longer run. `unwaited`
    are calls that no longer wait. `also` has host time that other fixes take away. `moved` has the
    bytes that GPU work moves then, where a fix says so; the replay does not need them.
    """

    removed: tuple[tuple[int, int], ...] = ()
    left: float = 0.0
    length: dict[int, float] = field(default_factory=dict)
    gone: frozenset[int] = frozenset()
    unwaited: frozenset[int] = frozenset()
    also: tuple[tuple[tuple[tuple[int, int], ...], float], ...] = ()
    moved: dict[int, float] = field(default_factory=dict)


class ReplayGraph(Struct, frozen=True):
    """Calls in order: when each began, when the host was done with all before it (and at last with
    all), host time before and inside each, and whether it waits. `waits` are places of calls, and
    in `rows` of the work of this step that they wait for. Then the work: its call and times, and
    the work of another stream that it waited for (-1: none). `order` says what follows what in all
    rounds. `busy_ns` is the GPU time of the busiest device.
    """

    span: Span
    steady: bool
    busy_ns: float
    calls: Ints
    began: Ints
    reached: Ints
    before: Floats
    inside: Floats
    after: float
    waiting: Bools
    waits: tuple[Ints, Ints]
    rows: Ints
    launch: Ints
    length: Floats
    delay: Floats
    pause: Floats
    depends: Ints
    order: Precedence


def graph_of(trace: Recording, span: Span, steady: bool) -> ReplayGraph:
    """The graph of one step, or of one call of a region; `steady` steps follow each other."""
    host, gpu = trace.host, trace.gpu
    calls = _within(trace, span, host.is_call)
    began, ended = host.start[calls], host.end[calls]
    reached = np.maximum.accumulate(np.append(span.start_ns, ended))  # when the host is done so far
    rows = span.work[gpu.usable[span.work] & np.isin(gpu.launch[span.work], calls)]
    place = {call: at for at, call in enumerate(calls.tolist())}
    launch = np.array([place[call] for call in gpu.launch[rows].tolist()], np.int64)
    order = np.lexsort((gpu.start[rows], launch))
    rows, launch = rows[order], launch[order]
    delay, pause, depends = _delays(trace, rows, began[launch] + gpu.lag)
    waits, device = _waits(trace, calls, rows, launch), gpu.device_number[rows]
    waiting = host.is_wait[calls]
    waiting[waits[0]] = True
    # a waiting call has its own time after what it waited for; one that copies to pageable memory
    # then moves the bytes out of the driver's buffer, which is work of the host
    done = np.maximum(began, reached[:-1])
    np.maximum.at(done, waits[0], gpu.end[rows[waits[1]]] - gpu.lag)
    inside = np.maximum(ended - done, 0).astype(np.float64)
    pageable = trace.host.named(lambda name: "DtoH" in name and "Pageable" in name)[gpu.id]
    returning = waiting & ~np.isin(calls, gpu.launch[pageable])
    return ReplayGraph(
        span=span,
        steady=steady,
        busy_ns=max((gpu.busy(rows[device == at]) for at in set(device.tolist())), default=0),
        calls=calls,
        began=began,
        reached=reached,
        before=np.maximum(began - reached[:-1], 0).astype(np.float64),
        inside=np.where(returning, np.minimum(inside, RETURN_NS), inside),
        after=float(max(_until(trace, span, steady) - int(reached[-1]), 0)),
        waiting=waiting,
        waits=waits,
        rows=rows,
        launch=launch,
        length=gpu.length[rows].astype(np.float64),
        delay=delay,
        pause=pause,
        depends=depends,
        order=_order(launch, gpu.lane[rows], depends, waits, len(calls), _rounds(steady)),
    )


def _rounds(steady: bool) -> int:
    return ROUNDS if steady else 1


def _order(
    launch: Ints, lane: Ints, depends: Ints, waits: tuple[Ints, Ints], calls: int, rounds: int
) -> Precedence:
    """What follows what. The host reaches each call, and at last the end of the step: from the call
    before it, and from what that one waited for. Work follows its launch, the work before it in its
    stream, which may be of the step before, and what it depends on. `_costs` has the same order.
    """
    size = len(launch) + calls + 1
    reach = np.arange(calls + 1) + np.searchsorted(launch, np.arange(calls + 1)) + 1
    work = np.arange(len(launch)) + launch + 2
    ahead = np.empty(len(lane), np.int64)
    for each in split_by(lane, np.arange(len(lane))):
        ahead[each] = np.append(work[each[-1]] - size, work[each[:-1]])
    waiting, waited = waits
    late = np.flatnonzero(depends >= 0)
    other = work[depends[late]] - size * (depends[late] > late)
    node = np.concatenate((reach, reach[waiting + 1], work, work, work[late]))
    source = np.concatenate(
        (np.append(reach[-1] - size, reach[:-1]), work[waited], reach[launch], ahead, other)
    )
    turns = size * np.arange(rounds)[:, None]
    return Precedence((node + turns).reshape(-1), np.maximum(source + turns, 0).reshape(-1))


def _until(trace: Recording, span: Span, steady: bool) -> int:
    """The end of a step on the host: where the next one begins, or would begin."""
    steps = sorted((each.start_ns, each.end_ns) for each in trace.spans.steps)
    apart = [later[0] - earlier[1] for earlier, later in pairwise(steps)]
    return span.end_ns + (max(int(np.median(apart)), 0) if steady and apart else 0)


def _within(trace: Recording, span: Span, chosen: Bools) -> Ints:
    """Events of the step that have a length, in the order of their time."""
    host = trace.host
    mine = chosen & host.lasting & (host.start >= span.start_ns) & (host.start < span.end_ns)
    rows = np.flatnonzero(mine)
    return rows[np.argsort(host.start[rows], kind="stable")]


def _delays(trace: Recording, rows: Ints, launched: Ints) -> tuple[Floats, Floats, Ints]:
    """From the launch to the start, from the end of the work before it in its stream to the start,
    each as recorded where that decided and else as usual; and what it waited for in another stream.
    """
    gpu = trace.gpu
    start, end, lane = gpu.start[rows], gpu.end[rows], gpu.lane[rows]
    ahead = gpu.ahead(rows)
    freed = np.where(ahead >= 0, end[ahead], np.iinfo(np.int64).min // 2)
    queued = freed >= launched
    delay = np.maximum(start - launched, 0).astype(np.float64)
    pause = np.maximum(start - freed, 0).astype(np.float64)
    usual_delay = float(np.median(delay[~queued])) if (~queued).any() else float(RETURN_NS)
    usual_pause = float(np.clip(np.median(pause[queued]), *PAUSE_NS)) if queued.any() else 1_000.0
    allowed = np.where(queued, freed + usual_pause, launched + usual_delay)
    depends = np.full(len(rows), -1)
    late = np.flatnonzero(start - allowed > LATE_NS)
    by_end = np.argsort(end, kind="stable")
    for at in late.tolist():
        near = int(np.searchsorted(end[by_end], start[at], side="right")) - 1
        other = int(by_end[near]) if near >= 0 else -1
        if other >= 0 and lane[other] != lane[at] and start[at] - end[other] < LATE_NS:
            depends[at] = other
    free = depends < 0
    delay = np.where(queued | ~free, usual_delay, delay)
    return delay, np.where(queued & free, pause, usual_pause), depends


def _waits(trace: Recording, calls: Ints, rows: Ints, launch: Ints) -> tuple[Ints, Ints]:
    """Calls that wait, each with the last work of each stream that it waited for."""
    host, gpu = trace.host, trace.gpu
    end, lane = gpu.end[rows] - gpu.lag, gpu.lane[rows]
    ended = host.end[calls][launch]
    # a copy from pageable memory holds the host for almost all of its time
    held = host.length[calls][launch] >= HELD * gpu.length[rows]
    held &= host.named(lambda name: "Pageable" in name)[gpu.id[rows]]
    # one on the device may end before its call does, which never waits for it
    to_host = gpu.is_memcpy & ~host.named(lambda name: "DtoD" in name)[gpu.id]
    own = np.flatnonzero(to_host[rows] & (held | (end <= ended)))
    found = {int(launch[at]): [int(at)] for at in own}
    for place in np.flatnonzero(host.is_wait[calls]).tolist():
        before = np.arange(int(np.searchsorted(launch, place, side="right")))
        done = before[end[before] <= host.end[calls[place]] + RETURN_NS]
        last = {int(lane[at]): at for at in done[np.argsort(end[done], kind="stable")].tolist()}
        found[place] = list(last.values())
    pairs = [(place, at) for place, each in found.items() for at in each]
    waiting, waited = np.array(pairs, np.int64).reshape(-1, 2).T
    return waiting, waited


NOTHING = GraphChange()
UNMOVED = 0.05  # of a step: a host of half the time changes less, so the GPU is the bottleneck
MORE = 1.1  # times the replayed step that the GPU may take
NEVER = -np.inf  # the cost of an edge that a change takes away


def run(graph: ReplayGraph, change: GraphChange = NOTHING) -> float:
    """The time of a step."""
    gone = np.isin(graph.rows, list(change.gone))
    pairs = zip(graph.rows.tolist(), graph.length.tolist(), strict=True)
    length = np.array([change.length.get(row, ns) for row, ns in pairs])
    at = graph.order.times(_costs(graph, change, gone, length))
    # a round of the host and of its work ends with the last of both
    ends = at[1:].reshape(_rounds(graph.steady), -1).max(axis=1)
    found = float(np.diff(ends, prepend=0.0)[-1])
    # steps overlap on the GPU no more than they did
    kept = float(length[~gone].sum()) / max(float(graph.length.sum()), 1.0)
    return max(found, float(graph.busy_ns) * kept)


def _costs(graph: ReplayGraph, change: GraphChange, gone: Bools, length: Floats) -> Floats:
    """The cost of each edge of `_order`; work that is gone passes on the time of its stream."""
    before, inside, after = _host_times(graph, change)
    reach = np.append(before, after) + np.append(0.0, inside)
    away = np.where(gone, NEVER, 0.0)
    waiting, waited = graph.waits
    free = np.isin(graph.calls[waiting], list(change.unwaited))
    waits = reach[waiting + 1] + np.where(free, NEVER, away[waited])
    launched, queued = graph.delay + length + away, np.where(gone, 0.0, graph.pause + length)
    late = np.flatnonzero(graph.depends >= 0)
    other = length[late] + away[late] + away[graph.depends[late]]
    one = np.concatenate((reach, waits, launched, queued, other))
    return np.tile(one, _rounds(graph.steady))


def _host_times(graph: ReplayGraph, change: GraphChange) -> tuple[Floats, Floats, float]:
    """Host time before, inside and after the calls, less what the change takes away."""
    before, inside, after = graph.before, graph.inside, graph.after
    until = np.append(graph.began, graph.span.end_ns)
    since = np.minimum(graph.reached, until)
    for removed, left in ((change.removed, change.left), *change.also):
        if removed:
            away = IntervalUnion(*(np.array(edge, np.int64) for edge in zip(*removed, strict=True)))
            part = (1.0 - left) * away.between(since, until) / np.maximum(until - since, 1)
            before, after = before * (1 - part[:-1]), after * (1 - float(part[-1]))
            inside = inside * np.where(away.holds(graph.began), left, 1.0)
    return before, inside, after


def without_profiler(trace: Recording, graph: ReplayGraph, cost: ProfilerCost) -> ReplayGraph:
    """The graph with the host times that it has without the profiler."""
    host = trace.host
    marks = np.concatenate(([graph.span.start_ns], graph.began, [graph.span.end_ns]))
    added = np.zeros(len(marks) - 1)
    for kind, ns in ((host.is_op, cost.op), (host.is_kind("python_function"), cost.python)):
        rows = _within(trace, graph.span, kind)
        edges = np.sort(np.concatenate((host.start[rows], host.end[rows])))
        added += np.diff(np.searchsorted(edges, marks)) / 2 * ns  # half at each end
    before = np.maximum(graph.before - added[:-1], LEAST * graph.before)
    inside = np.maximum(graph.inside - cost.call, LEAST * graph.inside)
    after = max(graph.after - float(added[-1]) - cost.step, LEAST * graph.after)
    return replace(graph, before=before, inside=inside, after=after)


def fitted(graph: ReplayGraph, known_ns: float) -> ReplayGraph:
    """The graph with host times scaled so that a step takes the time that it is known to take, and
    GPU times where the GPU alone takes longer in the recording.

    Where the GPU is the bottleneck, the time of a step says nothing about the host: a little more
    is the GPU's, and a host that is slowed down until it fits would hide what the GPU could gain.
    """
    now = run(graph)
    if known_ns <= MORE * now and run(rated(graph, 0.5, 1.0)) > (1 - UNMOVED) * now:
        return rated(graph, 1.0, known_ns / now)
    low, high = 0.02, 2.0
    for _ in range(12):
        part = (low + high) / 2
        low, high = (part, high) if run(rated(graph, part, 1.0)) < known_ns else (low, part)
    found = rated(graph, (low + high) / 2, 1.0)
    return rated(found, 1.0, min(known_ns / max(run(found), 1.0), 1.0))


def rated(graph: ReplayGraph, host: float, gpu: float) -> ReplayGraph:
    """The graph on a host and a GPU that take more or less time."""
    before, inside, after = graph.before * host, graph.inside * host, graph.after * host
    length, busy = graph.length * gpu, graph.busy_ns * gpu
    return replace(graph, before=before, inside=inside, after=after, length=length, busy_ns=busy)
