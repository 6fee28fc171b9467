"""A recording opened for a step of a lesson: marks predictions, measures facts, draws a call.

What stands between braces in a text is an expression of `foretrace check`, and is measured when the
text is shown: `{kernels}`, `{time(gelu)}`, `{layout(first gemm)}`, `{in optimizer: kernels}`,
`{a.gpu.time}`. Of the GPU there are `{HBM roof}`, `{L2 roof}` and `{L2 size}`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cached_property

import numpy as np
from msgspec import structs

from foretrace.base.units import bytes_text
from foretrace.check.evidence import Evidence
from foretrace.check.judging import Answer, Facts, Value, fact_text
from foretrace.check.language import Scope, Unknown, parse
from foretrace.check.marking import Marker, mark, middle
from foretrace.check.quantities import longest_gap, reads
from foretrace.check.verdict import Verdict
from foretrace.check.windows import Window, windows_of
from foretrace.learn.lessons.documents import Lanes, LaneSlice
from foretrace.look.document import roofs_entry
from foretrace.read import recordings
from foretrace.trace.bounds import measured_spans
from foretrace.trace.cpu_ops import TORCH_REGIONS, cpu_region, quotable_regions
from foretrace.trace.gpu import Gpu
from foretrace.trace.host import Host, step_number
from foretrace.trace.intervals import Ints
from foretrace.trace.metadata import device_of
from foretrace.trace.trace import Trace

Opens = Callable[[str], Trace]


class Scene:
    """One program as it ran. A prediction without a place is about one call of its region.

    A trace without a run record has steps or calls of its main region instead, as `look` chooses
    them, else it is one call as a whole.
    """

    def __init__(self, trace: Trace, against: Scene | None = None) -> None:
        self.trace, self.against = trace, against
        self.evidence = Evidence(trace)
        self.marker = Marker(self.evidence, against.evidence if against else None)
        self._verdicts: dict[str, Verdict] = {}
        region = trace.run.rung.region
        known = region is not None and region in trace.spans.region_groups()
        self.scope = Scope("region", region or "") if known else self._main()

    def _main(self) -> Scope:
        """Steps, else the region that holds most of the work, else the whole trace."""
        if self.on_cpu:
            region = "" if self.trace.spans.steps else cpu_region(self.trace)
            return Scope("region", region) if region else Scope()
        per, spans = measured_spans(self.trace)
        if per == "per step":
            # every step where they launch as much as each other, else the one in the middle
            steps = windows_of(Scope(), self.evidence)
            if len({len(step.rows) for step in steps}) == 1:
                return Scope()
            return Scope("step", str(step_number(middle(steps)[0].region)))
        names = {span.name for span in spans}
        one = len(names) == 1 and names <= quotable_regions(self.trace).keys()
        own = one and not next(iter(names)).startswith("##")  # torch names ranges so
        return Scope("region", names.pop()) if own else Scope()

    @property
    def region(self) -> str:
        """The region whose calls it is about; empty for steps and for a whole trace."""
        return self.scope.name if self.scope.kind == "region" else ""

    @property
    def unit(self) -> str:
        """What one call is: step (of any number), a numbered step, region, or the whole trace."""
        return self.scope.kind or ("steps" if self.trace.spans.steps else "trace")

    @property
    def on_cpu(self) -> bool:
        """Whether the CPU computed: the trace has ops, and nothing that hints at a GPU."""
        return self.evidence.runs_on_cpu

    def marked(self, text: str) -> Verdict:
        """How a prediction fares, about one call where it names no other place; marked once."""
        if text not in self._verdicts:
            other = self.against.scope if self.against else self.scope
            # one call is one step; `a` may name its calls otherwise
            placed = self._placed(text) if other == self.scope else text
            self._verdicts[text] = mark(placed, self.marker, gap=self.trace.ledger.gap)
        return self._verdicts[text]

    def value(self, text: str) -> Answer:
        """What an expression is in the call that is drawn; `Unknown` where the trace lacks it."""
        prediction = parse(self._placed(text), reads(), self.marker.advise)
        places = self.marker.places(prediction.scope)
        return self.marker.value(prediction.node, middle(places)[0])

    def _placed(self, text: str) -> str:
        return text if text.startswith("in ") else f"{self.scope}{text}"

    @cached_property
    def calls(self) -> list[Window]:
        """Every recorded call."""
        return windows_of(self.scope, self.evidence)

    @cached_property
    def call(self) -> Window:
        """The call that is drawn: the one with the median GPU time, as figures are given.

        On a CPU it is the one with the median time on the host.
        """
        return middle(self.calls)[0]

    def deciding(self, show: str) -> tuple[list[int], list[int]]:
        """GPU operations and host events that a quantity is counted on, in the call that is drawn;
        none where the trace lacks them.
        """
        with suppress(Unknown):
            self.marker.places(self.scope)
            answer = self.marker.value(parse(show, reads()).node, self.call)
            return [*answer.rows], [*answer.events]
        return [], []


def opened(opens: Opens, name: str, against: str = "") -> Scene:
    """The scene of a recording by its short name, or of the path of a trace."""
    other = opened(opens, against) if against else None
    found = recordings.find(name)
    return Scene(opens(str(found or name)), other)


MISSING = "not in the trace"
_FACT = re.compile(r"\{([^{}]+)\}")
ROOFS = {"HBM roof": "hbm_gbps", "L2 roof": "l2_gbps", "L2 size": "l2_bytes"}


def filled(text: str, scene: Scene) -> str:
    """The text with every fact measured."""
    return _FACT.sub(lambda found: _known(found[1], scene), text)


def _known(text: str, scene: Scene) -> str:
    try:
        return _fact(text, scene)
    except Unknown:
        return f"({MISSING}: {text})"


def _fact(text: str, scene: Scene) -> str:
    if text.startswith("a.") and scene.against:  # which may name its calls otherwise
        return _fact(text.removeprefix("a."), scene.against)
    if text in ROOFS:
        roofs = roofs_entry(device_of(scene.trace.about))
        value = getattr(roofs, ROOFS[text], None)
        if value is None:
            raise Unknown(text)
        return bytes_text(value) if text == "L2 size" else f"{bytes_text(value * 1e9)}/s"
    answer = scene.value(text)
    if isinstance(answer, Facts):
        return ", ".join(dict.fromkeys(map(shown_fact, answer.values)))
    if isinstance(answer, Value) and answer.why:
        raise Unknown(answer.why)
    return answer.text


def shown_fact(value: object) -> str:
    """What a kernel states, in a text for people; percent without decimals."""
    return f"{value:.0f}" if isinstance(value, float) else fact_text(value)


MOST = 5_000  # GPU operations or ops of one drawing; a longer call is drawn in part
GAP = "gap.longest"
PART = 24  # of them, around the longest one that decides


def lanes(scene: Scene, show: str) -> Lanes:
    """The call with the median GPU time; `show` is the quantity that what decides is counted in."""
    gpu, (decide, called) = scene.trace.gpu, scene.deciding(show)
    gap = longest_gap(scene.call) if show == GAP else None
    decide = [gap.then] if gap and gap.then >= 0 else decide
    call = _part(scene.call, decide, called)
    rows = call.rows.tolist()
    chosen, events = {*decide}, {*called}
    host, name = scene.trace.host, scene.evidence.name
    ops = call.events(host.is_op & host.lasting).tolist()
    outer = [event for event in ops if len(host.op_chain(event)) == 1]
    # the program's own `record_function` ranges in the call, not those that torch adds
    ranges = [
        event
        for event in call.events(host.is_region).tolist()
        if not name(event).startswith(TORCH_REGIONS) and name(event) != call.region
    ]
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
        return [
            _slice(name(event), host, event, begin, number.get(event, 0), event in deciding)
            for event in held
        ]

    work = [
        _slice(scene.evidence.operation(row).label, gpu, row, begin, number[launch], row in chosen)
        for row, launch in launched.items()
    ]
    if gap:
        work.append(
            LaneSlice("idle", gap.start_ns - begin, gap.start_ns + gap.length_ns - begin, 0, True)
        )
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


def _part(call: Window, decide: list[int], called: list[int]) -> Window:
    """The call, or what is around the longest operation that decides where there are too many."""
    trace = call.evidence.trace
    timed, drawn = (trace.gpu, call.rows) if len(call.rows) else (trace.host, _drawn(call))
    if max(len(call.rows), len(_drawn(call))) <= MOST:
        return call
    known = [item for item in (decide if len(call.rows) else called) if item in drawn]
    longest = max(
        known,
        key=lambda item: int(timed.end[item] - timed.start[item]),
        default=int(drawn[len(drawn) // 2]),
    )
    order = drawn[np.argsort(timed.start[drawn], kind="stable")]
    at = int(np.flatnonzero(order == longest)[0])
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

    return [*found, *_in_turn(host, filter(is_free, call.events(call.evidence.computing).tolist()))]


def _in_turn(host: Host, events: Iterable[int]) -> list[int]:
    """Those that begin after the one before has ended."""
    found, end = list[int](), -1
    for event in events:
        if host.start[event] >= end:
            found.append(event)
            end = host.end[event]
    return found


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
