"""One call on the host and on the GPU, as slices: what a small drawing needs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from msgspec import structs

from foretrace.analyze.guess.kinds.bounds import longest_gap
from foretrace.analyze.guess.selection import Selection, working_ops
from foretrace.analyze.guess.windows import Window
from foretrace.learn.lessons.scene import Scene
from foretrace.model.cpu_ops import TORCH_REGIONS
from foretrace.model.gpu import Gpu
from foretrace.model.host import Host
from foretrace.model.intervals import Ints
from foretrace.schema.documents.lesson import Lanes, LaneSlice

MOST = 5_000  # GPU operations or ops of one drawing; a longer call is drawn in part
PART = 24  # of them, around the longest one that decides


def lanes(scene: Scene, show: str) -> Lanes:
    """The call with the median GPU time; `show` selects what decides, or is `gap`: the longest."""
    gap = longest_gap(scene.call) if show == "gap" else None
    ended = Selection(True, [gap.then], []) if gap and gap.then >= 0 else None
    found, gpu = ended or scene.selected(show), scene.trace.gpu
    call = _part(scene.call, found)
    rows = call.rows.tolist()
    events = set[int]() if found.on_gpu else {*found.sure}
    chosen = {*found.sure} if found.on_gpu else set[int]()
    outer, ranges = _outermost(call), _ranges(call)
    # below zero: its launch is not in the trace, so it shares its number with no other
    launched = {row: int(gpu.launch[row]) if gpu.launch[row] >= 0 else -1 - row for row in rows}
    launches = [*dict.fromkeys(launched.values())]  # a graph launch is one for many
    number = {launch: place for place, launch in enumerate(launches, 1)}
    deciding = events | {launched[row] for row in chosen & launched.keys()}
    inner = {int(gpu.op[row]) for row in rows if gpu.op[row] >= 0} | events
    if scene.on_cpu:
        inner = {*_apart(call, events)}
    begin, end = _window(call)
    begin = min(begin, gap.start_ns) if gap else begin

    def drawn(held: Iterable[int]) -> list[LaneSlice]:
        host, name = scene.trace.host, scene.evidence.name
        return [
            _slice(name(event), host, event, begin, number.get(event, 0), event in deciding)
            for event in held
        ]

    work = [
        _slice(scene.evidence.operation(row).label, gpu, row, begin, number[launch], row in chosen)
        for row, launch in launched.items()
    ]
    if gap:
        work.append(LaneSlice("idle", gap.start_ns - begin, gap.end_ns - begin, 0, True))
    inside = sorted(inner - {*outer, *ranges, *launches})
    calls = [launch for launch in launches if launch >= 0]
    every = (*map(drawn, (ranges, outer, inside, calls)), work)
    return Lanes(call.region, end - begin, *(_clipped(lane, end - begin) for lane in every))


def _window(call: Window) -> tuple[int, int]:
    """From the start of the call on the host to its end there, or to that of its GPU work."""
    trace = call.evidence.trace
    if call.start_ns is None:  # the whole trace: what is drawn of it
        timed = np.concatenate((trace.host.start[_drawn(call)], trace.gpu.start[call.rows]))
        ended = np.concatenate((trace.host.end[_drawn(call)], trace.gpu.end[call.rows]))
        return int(timed.min(initial=2**62)), int(ended.max(initial=0))
    begin, end = call.start_ns, call.end_ns or 0
    return begin, max(end, int(trace.gpu.end[call.rows].max(initial=end)))


def _drawn(call: Window) -> Ints:
    host = call.evidence.trace.host
    return call.events((host.is_op | host.is_call) & host.lasting)


def _part(call: Window, found: Selection) -> Window:
    """The call, or what is around the longest operation that decides where there are too many."""
    trace = call.evidence.trace
    timed, drawn = (trace.gpu, call.rows) if len(call.rows) else (trace.host, _drawn(call))
    if max(len(call.rows), len(_drawn(call))) <= MOST:
        return call
    length = {item: int(timed.end[item] - timed.start[item]) for item in found.sure}
    known = [item for item in length if found.on_gpu is bool(len(call.rows))]
    middle = max(known, key=lambda item: length[item], default=int(drawn[len(drawn) // 2]))
    order = drawn[np.argsort(timed.start[drawn], kind="stable")]
    at = int(np.flatnonzero(order == middle)[0])
    near = order[max(at - PART // 2, 0) : at + PART // 2]
    begin, end = int(timed.start[near].min()), int(timed.end[near].max())
    rows = near if len(call.rows) else call.rows
    return replace(call, rows=np.sort(rows), start_ns=begin, end_ns=end)


def _apart(call: Window, events: set[int]) -> list[int]:
    """The ops of a CPU call that compute, and what decides; of two that overlap, what decides."""
    host = call.evidence.trace.host
    found = _in_turn(host, sorted(events, key=lambda event: int(host.start[event])))
    begins, ends = host.start[found].tolist(), host.end[found].tolist()

    def is_free(event: int) -> bool:
        at = bisect_right(begins, host.start[event])
        before = at == 0 or ends[at - 1] <= host.start[event]
        return before and (at == len(begins) or host.end[event] <= begins[at])

    return [*found, *_in_turn(host, filter(is_free, working_ops(call)))]


def _in_turn(host: Host, events: Iterable[int]) -> list[int]:
    """Those that begin after the one before has ended."""
    found, end = list[int](), -1
    for event in events:
        if host.start[event] >= end:
            found.append(event)
            end = host.end[event]
    return found


def _ranges(call: Window) -> list[int]:
    """The program's own `record_function` ranges in the call, not those that torch adds."""
    host = call.evidence.trace.host
    events = call.events(host.is_region).tolist()
    names = {event: call.evidence.name(event) for event in events}
    own = [event for event in events if not names[event].startswith(TORCH_REGIONS)]
    return [event for event in own if names[event] != call.region]


def _outermost(call: Window) -> list[int]:
    """The ops that no other op called."""
    host = call.evidence.trace.host
    ops = call.events(host.is_op & host.lasting).tolist()
    return [event for event in ops if len(host.op_chain(event)) == 1]


def _slice(
    label: str, timed: Host | Gpu, at: int, begin: int, number: int, decides: bool
) -> LaneSlice:
    start, end = int(timed.start[at]) - begin, int(timed.end[at]) - begin
    return LaneSlice(label, start, end, number, decides)


def _clipped(slices: list[LaneSlice], length: int) -> list[LaneSlice]:
    """What lies in the drawing: of a call that is drawn in part, some launches came before."""
    return [
        structs.replace(each, start_ns=max(each.start_ns, 0), end_ns=min(each.end_ns, length))
        for each in slices
        if each.start_ns <= length and each.end_ns >= 0
    ]
