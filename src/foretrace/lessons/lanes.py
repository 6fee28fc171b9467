"""One call on the host and on the GPU, as slices: what a small drawing needs."""

from __future__ import annotations

from collections.abc import Iterable

from foretrace.guess.scope import Window
from foretrace.lessons.scene import Scene
from foretrace.schema.documents.lesson import Lanes, LaneSlice


def lanes(scene: Scene, show: str) -> Lanes:
    """The call with the median GPU time; `show` selects what decides."""
    call, gpu = scene.call, scene.trace.gpu
    found = scene.selected(show)
    rows = call.rows.tolist()
    events = set[int]() if found.on_gpu else {*found.sure}
    chosen = {*found.sure} if found.on_gpu else set[int]()
    numbered = dict(zip(rows, range(1, len(rows) + 1), strict=True))
    outer, ranges = _outermost(call), _ranges(call)
    launches = {int(gpu.launch[row]) for row in rows}
    inner = {int(gpu.op[row]) for row in rows if gpu.op[row] >= 0} | events
    begin, end = _window(call)
    return Lanes(
        call.region,
        end - begin,
        ranges=_events(scene, ranges, events),
        ops=_events(scene, outer, events),
        inside=_events(scene, sorted(inner - {*outer, *ranges} - launches), events),
        calls=[
            _event(scene, launch, number, row in chosen or launch in events)
            for row, number in numbered.items()
            if (launch := int(gpu.launch[row])) >= 0
        ],
        gpu=[
            LaneSlice(
                scene.evidence.operation(row).label,
                int(gpu.start[row]) - begin,
                int(gpu.end[row]) - begin,
                number,
                row in chosen,
            )
            for row, number in numbered.items()
        ],
    )


def _window(call: Window) -> tuple[int, int]:
    """From the start of the call on the host to its end there, or to that of its GPU work."""
    begin, end = call.start_ns or 0, call.end_ns or 0
    return begin, max(end, int(call.evidence.trace.gpu.end[call.rows].max(initial=end)))


def _ranges(call: Window) -> list[int]:
    """The program's own `record_function` ranges in the call, not those that torch adds."""
    host = call.evidence.trace.host
    events = call.events(host.is_region).tolist()
    names = {event: call.evidence.name(event) for event in events}
    own = [event for event in events if not names[event].startswith(("##", "Optimizer."))]
    return [event for event in own if names[event] != call.region]


def _outermost(call: Window) -> list[int]:
    """The ops that no other op called."""
    host = call.evidence.trace.host
    ops = call.events(host.is_op & host.lasting).tolist()
    return [event for event in ops if len(host.op_chain(event)) == 1]


def _events(scene: Scene, events: Iterable[int], deciding: set[int]) -> list[LaneSlice]:
    return [_event(scene, event, 0, event in deciding) for event in events]


def _event(scene: Scene, event: int, number: int, decides: bool) -> LaneSlice:
    host, begin = scene.trace.host, scene.call.start_ns or 0
    start, end = int(host.start[event]) - begin, int(host.end[event]) - begin
    return LaneSlice(scene.evidence.name(event), start, end, number, decides)
