"""A recording opened for a step of a lesson: marks predictions, measures facts, draws a call.

What stands between braces in a text is measured, never typed:

    {kernels}, {gemm time}, {gpu time}, {wall time}, {gelu bytes}    a measure of one call
    {layout of first gemm}, {call of gelu}, {name of ops}            a field, each value once
    {gpu busy}, {gpu idle}, {compile time}                           a share; a time spent once
    {in optimizer: kernels}                                          a measure of another region
    {A: gpu time}                                                    the same of the recording A
    {HBM roof}, {L2 roof}, {L2 size}                                 of the GPU, as measured
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np
from msgspec import structs

from foretrace.base.errors import UsageError
from foretrace.base.patterns import regex
from foretrace.base.units import bytes_text
from foretrace.check import Guess, parse
from foretrace.check.evidence import Evidence
from foretrace.check.grammar import SLOTS
from foretrace.check.kinds.bounds import longest_gap
from foretrace.check.marking import mark
from foretrace.check.selection import Measure, Selection, middle, select, working_ops
from foretrace.check.traits import read_field, value_of, value_text
from foretrace.check.verdict import Verdict
from foretrace.check.windows import Scope, Unknown, Window, cpu_place, split_scope, windows_of
from foretrace.check.words import ParseFailure, read_selector, split
from foretrace.learn.lessons.documents import Lanes, LaneSlice
from foretrace.look.document import roofs_entry
from foretrace.read import recordings
from foretrace.trace.bounds import measured_spans
from foretrace.trace.cpu_ops import TORCH_REGIONS, quotable_regions
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
        self._verdicts: dict[str, Verdict] = {}
        region = trace.run.rung.region
        known = region is not None and region in trace.spans.region_groups()
        self.scope = Scope("region", region or "") if known else self._main()

    def _main(self) -> Scope:
        """Steps, else the region that holds most of the work, else the whole trace."""
        if self.on_cpu:
            return cpu_place(self.evidence.trace)
        per, spans = measured_spans(self.trace)
        if per == "per step":
            # every step where they launch as much as each other, else the one in the middle
            steps = windows_of(Scope("steps"), self.evidence)
            if len({len(step.rows) for step in steps}) == 1:
                return Scope("steps")
            return Scope("step", str(step_number(middle(steps)[0].region)))
        names = {span.name for span in spans}
        told = len(names) == 1 and names <= quotable_regions(self.evidence.trace).keys()
        own = told and not next(iter(names)).startswith("##")  # torch names ranges so
        return Scope("region", names.pop()) if own else Scope()

    @property
    def region(self) -> str:
        """The region whose calls it is about; empty for steps and for a whole trace."""
        return self.scope.name if self.scope.kind == "region" else ""

    @property
    def on_cpu(self) -> bool:
        """Whether the CPU computed: the trace has ops, and nothing that hints at a GPU."""
        return self.evidence.runs_on_cpu

    def prediction(self, text: str) -> Guess:
        """The prediction, about one call where it names no other place."""
        guess = parse(text)
        if guess.scope.kind != "trace" or guess.kind.records:
            return guess
        other = self.against.scope if self.against else self.scope
        # one call is one step; A may name its calls otherwise
        scope = self.scope if other == self.scope else Scope("steps")
        return replace(guess, text=scope.prefix + text, scope=scope)

    def marked(self, text: str | Guess) -> Verdict:
        """How a prediction fares; one that a lesson states is marked once."""
        other = self.against.evidence if self.against else None
        if not isinstance(text, str):
            return mark(text, self.evidence, other)
        if text not in self._verdicts:
            self._verdicts[text] = mark(self.prediction(text), self.evidence, other)
        return self._verdicts[text]

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

    def selected(self, selector: str) -> Selection:
        """What a selector matches in the call that is drawn; nothing where the trace lacks it."""
        try:
            return select(self.call, read_selector(split(selector), 0)[0])
        except Unknown:
            return Selection(False, [], [])


def opened(opens: Opens, name: str, against: str = "") -> Scene:
    """The scene of a recording by its short name, or of the path of a trace."""
    other = opened(opens, against) if against else None
    found = recordings.find(name)
    return Scene(opens(str(found or name)), other)


MISSING = "not in the trace"
_FACT = regex(r"\{([^{}]+)\}")
ROOFS = {"HBM roof": "hbm_gbps", "L2 roof": "l2_gbps", "L2 size": "l2_bytes"}
# measures that predictions alone have
_PREDICTED = {
    "gpu busy": "0%",
    "gpu idle": "0%",
    "compile time": "0 s",
    "peak memory": "0 B",
    "peak reserved memory": "0 B",
}


def filled(text: str, scene: Scene) -> str:
    """The text with every fact measured."""
    return _FACT.sub(lambda found: _known(found[1], scene), text)


def _known(text: str, scene: Scene) -> str:
    try:
        return _fact(text, scene)
    except Unknown:
        return f"({MISSING}: {text})"
    except ParseFailure as wrong:
        said = f"{{{text}}} in a lesson: not a measure, a field or a share"
        raise UsageError(said) from wrong


def _fact(text: str, scene: Scene) -> str:
    if text.startswith("A: ") and scene.against:
        return _fact(text.removeprefix("A: "), scene.against)
    if text in ROOFS:
        roofs = roofs_entry(device_of(scene.evidence.trace.about))
        value = getattr(roofs, ROOFS[text], None)
        if value is None:
            raise Unknown(text)
        return bytes_text(value) if text == "L2 size" else f"{bytes_text(value * 1e9)}/s"
    if least := _PREDICTED.get(text.rpartition(": ")[2]):
        verdict = scene.marked(f"{text} >= {least}")
        if verdict.verdict == "unknown":
            raise Unknown(verdict.why)
        return verdict.measured.partition(" (")[0]
    field, of, selector = text.partition(" of ")
    if of:
        return _field(field, scene, scene.selected(selector))
    scope, tokens = split_scope(text, split(text))
    measure, end = SLOTS["measure"].read(tokens, 0)
    if not isinstance(measure, Measure) or end != len(tokens):
        raise ParseFailure(end, [])
    calls = scene.calls if scope.kind == "trace" else windows_of(scope, scene.evidence)
    return measure.shown(measure.median(calls))


def _field(name: str, scene: Scene, found: Selection) -> str:
    """The values of a field, each once; host events have a name alone."""
    evidence = scene.evidence
    if name == "call":
        values = [evidence.launch_name(row) for row in found.sure]
    elif name == "name" and found.on_gpu:
        values = [evidence.operation(row).name for row in found.sure]
    elif name == "name":
        values = [evidence.name(event) for event in found.sure]
    else:
        field = read_field(split(name), 0)[0]
        values = [value_text(value_of(evidence, row, field)) for row in found.sure]
    return ", ".join(dict.fromkeys(values))


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
