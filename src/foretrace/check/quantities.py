"""The quantities: one table, in which a name has a unit, what it is of, and a function.

A quantity of a step is the number that the first screen prints. A count is that of each window; a
time, a share and what is made of them are those of the typical one: the median over the windows.
To add a quantity, write one function below `@quantity`; its docstring is the manual.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace.base import plugins
from foretrace.base.units import time_text
from foretrace.check.evidence import Evidence
from foretrace.check.judging import (
    COUNT,
    DTYPES,
    SHARE,
    SIZES,
    TRUTH,
    WORD,
    Answer,
    Facts,
    Truth,
    Value,
    fact_text,
)
from foretrace.check.language import (
    BYTE_RATE,
    BYTES,
    FLOP_RATE,
    FLOPS,
    PLAIN,
    TIME,
    Reads,
    Selector,
    Unknown,
    glob,
    nearest,
)
from foretrace.check.selectors import Chosen, choose, host_events
from foretrace.check.windows import Window
from foretrace.trace import bounds
from foretrace.trace.idle import CAUSES, Spent, spent_in
from foretrace.trace.idle import windows_of as idle_windows
from foretrace.trace.intervals import IntervalUnion, union_length
from foretrace.work.kernel import INEXACT
from foretrace.work.kernel_row import facts

if TYPE_CHECKING:
    from foretrace.look.measured_step import MeasuredStep


@dataclass(frozen=True, slots=True)
class Quantity:
    """One row of the table.

    `unit` is count, share, word, truth or what it measures. `typical` is judged by the median over
    the windows; what is `once` is of the whole recording, whatever the scope. `words` are all that
    it can be, where they are known.
    """

    name: str
    unit: str
    reads: Reads
    of: Callable[..., Answer]
    typical: bool = False
    once: bool = False
    words: tuple[str, ...] = ()

    @property
    def manual(self) -> str:
        """Its docstring, on one line."""
        return " ".join((self.of.__doc__ or "").split())

    @property
    def measures(self) -> str:
        """What its values are, for people: a count, a time, true or false."""
        return _MEASURES.get(self.unit, self.unit)

    @property
    def example(self) -> str:
        """An expression of it."""
        of = (
            "time(gemm)"
            if self.reads.expression
            else ", ".join(["gemm", "mul"][: self.reads.least])
        )
        text = f"{self.name}({of})" if of else self.name
        return f"{text} {_COMPARED.get(self.unit, '')}".rstrip()


QUANTITIES: dict[str, Quantity] = {}
_MEASURES = {
    "count": "a count",
    "share": "a share, as in 40%",
    "word": "a word",
    "truth": "true or false",
}
_MEASURES |= {
    TIME: "a time, as in 8 ms",
    BYTES: "bytes, as in 10 GB",
    FLOPS: "FLOP, as in 38 GFLOP",
}
_COMPARED = {COUNT: "== 5", SHARE: "> 40%", TIME: "< 8 ms", BYTES: "< 10 GB", FLOPS: "> 38 GFLOP"}
_COMPARED |= {BYTE_RATE: "> 2 TB/s", FLOP_RATE: "> 300 TFLOP/s", "ratio": "> 1.3", WORD: "== …"}


def quantity(
    name: str, unit: str, least: int = 0, most: int | None = None, **how: Any
) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Enter a function into the table; it takes a window, and a `Selector` for each argument."""
    reads = Reads(least, least if most is None else most, how.pop("expression", False))

    def enter(of: Callable[..., Answer]) -> Callable[..., Answer]:
        QUANTITIES[name] = Quantity(name, unit, reads, of, **how)
        return of

    return enter


def reads() -> dict[str, Reads]:
    """How the parser reads the arguments of each."""
    return {name: each.reads for name, each in QUANTITIES.items()}


def _number(value: float, unit: str, **more: Any) -> Value:
    return Value(value, value, unit if unit in SIZES else PLAIN, unit, **more)


KERNELS, MEMCPYS, MEMSETS = (Selector(0, word) for word in ("kernel", "memcpy", "memset"))


def _counted(window: Window, selector: Selector) -> Value:
    chosen = choose(window, selector)
    places, none = tuple(chosen.sure), tuple[int, ...]()
    rows, events = (places, none) if chosen.on_gpu else (none, places)
    why = "" if chosen.certain else chosen.why(selector.text)
    return Value(len(places), chosen.most, PLAIN, COUNT, rows, events, why)


@quantity("kernels", COUNT, 0, 1)
def _kernels(window: Window, of: Selector = KERNELS) -> Answer:
    """GPU kernels, or those that the selector chooses; on a CPU the ops that compute."""
    return _counted(window, of)


@quantity("count", COUNT, 1)
def _count(window: Window, of: Selector) -> Answer:
    """GPU operations that the selector chooses: kernels, or memcpys with `count(copy HtoD)`."""
    return _counted(window, of)


@quantity("memcpys", COUNT)
def _memcpys(window: Window) -> Answer:
    """Copies by the GPU's copy engines or drivers."""
    return _counted(window, MEMCPYS)


@quantity("memsets", COUNT)
def _memsets(window: Window) -> Answer:
    """Memory that the GPU fills with one value."""
    return _counted(window, MEMSETS)


def _masked(window: Window, mask: str) -> Value:
    host = window.evidence.trace.host
    if not host.is_call.any():
        raise Unknown("no runtime calls in this trace: record with ProfilerActivity.CUDA")
    events = window.events(getattr(host, mask)).tolist()
    return Value(
        len(events), math.inf if window.gap else len(events), events=tuple(events), why=window.gap
    )


@quantity("launches", COUNT, 0, 8)
def _launches(window: Window, *of: Selector) -> Answer:
    """Calls that launch a kernel or a graph; with ops, GPU operations that their calls launch."""
    if not of:
        return _masked(window, "is_launch")
    window.need_gpu()
    host, gpu = window.evidence.trace.host, window.evidence.trace.gpu
    mask = np.zeros(host.count, bool)
    for each in of:
        calls = host_events(window, each.text, "op")
        if not calls:
            raise Unknown(f"no op {each.text} in {window.label}")
        mask[calls] = True
    rows = window.rows[gpu.launch[window.rows] >= 0]
    below = rows[host.nearest(gpu.launch[rows], mask) >= 0].tolist()
    most = math.inf if window.gap else len(below) + window.lost
    return Value(len(below), most, rows=tuple(below), why=window.gap)


@quantity("graph_launches", COUNT)
def _graph_launches(window: Window) -> Answer:
    """Launches of CUDA graphs."""
    return _masked(window, "is_graph_launch")


@quantity("waits", COUNT, 0, 1)
def _waits(window: Window, of: Selector | None = None) -> Answer:
    """Stops of the host until the GPU has finished; with an op, those inside it: `waits(item)`."""
    waits = _masked(window, "is_wait")
    if of is None:
        return waits
    host = window.evidence.trace.host
    mask = np.zeros(host.count, bool)
    mask[host_events(window, of.text)] = True
    inside = tuple(event for event in waits.events if host.nearest(np.array([event]), mask)[0] >= 0)
    return replace(
        waits, low=len(inside), high=math.inf if window.gap else len(inside), events=inside
    )


@quantity("calls", COUNT, 1)
def _calls(window: Window, of: Selector) -> Answer:
    """Calls of an op, a runtime function or a region on the host: `calls(aten::t)`."""
    events = host_events(window, of.text)
    return Value(
        len(events), math.inf if window.gap else len(events), events=tuple(events), why=window.gap
    )


@quantity("distinct", COUNT, 1)
def _distinct(window: Window, of: Selector) -> Answer:
    """Different names among calls on the host: `distinct(op)`, `distinct("## Call*")`."""
    names = window.evidence.trace.host.name[host_events(window, of.text)]
    count = len(set(names.tolist()))
    return Value(count, math.inf if window.gap else count, why=window.gap)


@quantity("ops", COUNT)
def _ops(window: Window) -> Answer:
    """Host ops: everything that torch calls, views and wrappers too."""
    host = window.evidence.trace.host
    if not host.is_op.any():
        raise Unknown(
            "no host ops in this trace: ProfilerActivity.CPU was off, or a CUDA graph ran"
        )
    events = window.events(host.is_op & host.lasting)
    return Value(len(events), math.inf if window.gap else len(events), why=window.gap)


@quantity("names", COUNT, 0, 1)
def _names(window: Window, of: Selector = KERNELS) -> Answer:
    """Different names among kernels."""
    chosen = _certain(window, of)
    trace = window.evidence.trace
    names = {
        int(trace.host.name[trace.gpu.id[row] if chosen.on_gpu else row]) for row in chosen.sure
    }
    return _number(len(names), COUNT, rows=tuple(chosen.sure) if chosen.on_gpu else ())


@quantity("streams", COUNT)
def _streams(window: Window) -> Answer:
    """Streams that ran anything."""
    window.need_gpu()
    window.need_all()
    return _number(len(np.unique(window.evidence.trace.gpu.lane[window.rows])), COUNT)


@quantity("steps", COUNT, once=True)
def _steps(window: Window) -> Answer:
    """Steps of the recording."""
    steps = len(window.evidence.trace.spans.steps)
    if not steps:
        raise Unknown("no steps in this trace: record with a schedule and call step()")
    return Value(steps, math.inf if window.gap else steps, why=window.gap)


def _certain(window: Window, of: Selector) -> Chosen:
    chosen = choose(window, of)
    if not chosen.certain:
        raise Unknown(chosen.why(of.text))
    return chosen


def _some(window: Window, of: Selector) -> Chosen:
    chosen = _certain(window, of)
    if not chosen.sure:
        raise Unknown(f"no {of.text} in {window.label}")
    return chosen


OF_LAUNCHES = ("time", "bytes", "flops", "bandwidth", "rate", "host.time")


def calls_of(window: Window, of: Selector, _: str) -> list[float]:
    """The time of every call on the host."""
    events = host_events(window, of.text)
    if not events:
        raise Unknown(f"no {of.text} in {window.label}")
    return [float(ns) for ns in window.evidence.trace.host.length[events].tolist()]


def launches_of(window: Window, of: Selector, what: str) -> list[float]:
    """The time, bytes, FLOP or a rate of every launch."""
    chosen = _some(window, of)
    trace, evidence = window.evidence.trace, window.evidence
    if not chosen.on_gpu:
        if what != TIME:
            raise Unknown(f"{what} belong to GPU operations: this program runs on a CPU")
        return [float(trace.host.length[event]) for event in chosen.sure]
    if what == TIME:
        if not trace.gpu.usable[chosen.sure].all():
            raise Unknown("some GPU operations have no time")
        return [float(ns) for ns in trace.gpu.length[chosen.sure].tolist()]
    return [_work(evidence, row, what) for row in chosen.sure]


def _work(evidence: Evidence, row: int, what: str) -> float:
    if what in (FLOP_RATE, BYTE_RATE):
        known = _work(evidence, row, FLOPS if what == FLOP_RATE else BYTES)
        return known / max(int(evidence.trace.gpu.length[row]), 1) * 1e9
    work = evidence.operation(row)
    if work.kind != "kernel":
        moved = evidence.copy_bytes.get(int(evidence.trace.gpu.id[row])) if what == BYTES else 0
    else:
        moved = evidence.kernel_fact(row, what)
        if what == BYTES and evidence.kernel_fact(row, "cost_certainty") in INEXACT:
            note = evidence.kernel_fact(row, "cost_note")
            raise Unknown(f"the bytes of {work.label} are not known exactly ({note})")
    if moved is None:
        shapes = "" if evidence.trace.has("shapes") else ": record with record_shapes=True"
        raise Unknown(f"the {what} of {work.label} are not known{shapes}")
    return float(moved)


def _summed(window: Window, of: Selector, what: str) -> Value:
    chosen = _certain(window, of)
    if not chosen.sure:
        return _number(0.0, what)
    if not chosen.on_gpu and what == TIME:
        host = window.evidence.trace.host
        length = union_length(host.start[chosen.sure], host.end[chosen.sure])
        return _number(length, TIME, events=tuple(chosen.sure))
    total = sum(launches_of(window, of, what))
    if what == TIME:  # kernels that run at the same time share it, as on the first screen
        total = float(window.shared[chosen.sure].sum())
    return _number(total, what, rows=tuple(chosen.sure))


@quantity("time", TIME, 1, typical=True)
def _time(window: Window, of: Selector) -> Answer:
    """GPU time of what the selector chooses, summed; on a CPU the time inside those ops."""
    return _summed(window, of, TIME)


@quantity("bytes", BYTES, 1, typical=True)
def _bytes(window: Window, of: Selector) -> Answer:
    """Bytes that kernels must read and write by their shapes, or that copies moved."""
    return _summed(window, of, BYTES)


@quantity("flops", FLOPS, 1, typical=True)
def _flops(window: Window, of: Selector) -> Answer:
    """FLOP of matmuls and attention by their shapes."""
    return _summed(window, of, FLOPS)


@quantity("bandwidth", BYTE_RATE, 1, typical=True)
def _bandwidth(window: Window, of: Selector) -> Answer:
    """Bytes over time of what the selector chooses, together."""
    return _number(
        _summed(window, of, BYTES).low / sum(launches_of(window, of, TIME)) * 1e9, BYTE_RATE
    )


@quantity("rate", FLOP_RATE, 1, typical=True)
def _rate(window: Window, of: Selector) -> Answer:
    """FLOP over time of what the selector chooses, together."""
    return _number(
        _summed(window, of, FLOPS).low / sum(launches_of(window, of, TIME)) * 1e9, FLOP_RATE
    )


@quantity("share", SHARE, 1, typical=True)
def _share(window: Window, of: Selector) -> Answer:
    """Share of the GPU time, as in the table of the first screen; on a CPU of the step."""
    mine = _summed(window, of, TIME)
    if window.evidence.runs_on_cpu:
        return _number(mine.low / max(window.length_ns, 1), SHARE, events=mine.events)
    window.need_gpu()
    return _number(mine.low / max(float(window.shared.sum()), 1.0), SHARE, rows=mine.rows)


def _over_launches(
    of: Callable[[Sequence[float]], float], doc: str
) -> Callable[[Window, Sequence[float], str], Answer]:
    def over(window: Window, values: Sequence[float], measures: str) -> Answer:
        return _number(of(values), measures)

    over.__doc__ = doc
    return over


for _name, _of, _doc in (
    ("max", max, "The largest of all launches: `max(time(gemm)) < 100 us`."),
    ("min", min, "The smallest of all launches."),
    ("mean", fmean, "The mean over all launches."),
    ("median", median, "The median over all launches."),
):
    quantity(_name, TIME, 1, expression=True)(_over_launches(_of, _doc))


@quantity("spread", SHARE, 1, expression=True)
def _spread(window: Window, values: Sequence[float], measures: str) -> Answer:
    """The largest of all launches minus the smallest, as a share of the median."""
    return _number((max(values) - min(values)) / max(median(values), 1), SHARE)


@quantity("each", WORD, 1, expression=True)
def _each(window: Window, values: Sequence[float], measures: str) -> Answer:
    """Every launch: `each(flops(gemm)) == 38.65 GFLOP`, `each(time(gemm)) ~ 54 us (± 15%)`."""
    return Facts(tuple(values), measures=measures)


@quantity("some", WORD, 1, expression=True)
def _some_of(window: Window, facts: Facts) -> Answer:
    """At least one, where all are meant without it: `some(tile(gemm)) == 256x128`."""
    return replace(facts, some=True)


def step_of(window: Window) -> MeasuredStep:
    """The step, call or recording as the first screen measures it."""
    evidence = window.evidence
    window.need_gpu()
    if window.gap:
        raise Unknown(window.gap)
    key = (
        window.region if window.event >= 0 and not evidence.trace.host.is_step[window.event] else ""
    )
    if key and evidence.main_region == key:
        key = ""
    if key not in evidence.measured:
        from foretrace.look.measured_step import measured

        step = measured(evidence.trace, key)
        if step is not None and not key:
            from foretrace.look.savings import without_profiler

            step = without_profiler(evidence.trace, step, evidence.replayed)
        evidence.measured[key] = step
    step = evidence.measured[key]
    if step is None:
        raise Unknown(f"no GPU operations with times in {window.label}")
    return step


def _spent(window: Window) -> Spent:
    """Where the recorded time of one window goes."""
    trace = window.evidence.trace
    window.need_gpu()
    window.need_all()
    time = spent_in(trace.idle) if window.whole else bounds.spent(trace, window.span)
    if time is None:
        raise Unknown(f"no GPU operations with times in {window.label}")
    return time


def _is_typical(window: Window) -> bool:
    """Whether the window is one of those that the first screen takes the median of."""
    return window.whole or (window.event >= 0 and not window.alone)


@quantity("step.time", TIME, typical=True)
def _step_time(window: Window) -> Answer:
    """A step (or a call of the region) without the profiler, as on the first screen: from the run
    record, else by replay. On a CPU that of the recording where no run record has it.
    """
    trace = window.evidence.trace
    if window.evidence.runs_on_cpu:
        own = window.event >= 0 and not trace.host.is_step[window.event]
        record = (
            bounds.unprofiled_ns(trace, window.region) if own else bounds.unprofiled_step_ns(trace)
        )
        return _number(record or _host_ns(window), TIME)
    if window.alone:
        raise Unknown("only the typical step is known without the profiler: say `step.recorded`")
    return _number(step_of(window).wall_ns, TIME)


def _host_ns(window: Window) -> float:
    if window.whole:
        raise Unknown("the recording has no steps: say `in REGION:`")
    return float(window.length_ns)


@quantity("step.recorded", TIME, typical=True)
def _step_recorded(window: Window) -> Answer:
    """A step as the trace has it, with what the profiler adds."""
    if window.evidence.runs_on_cpu:
        return _number(_host_ns(window), TIME)
    step = None if window.alone else step_of(window).recorded_ns
    return _number(step or _spent(window).recorded_ns, TIME)


@quantity("host.time", TIME, 0, 1, typical=True)
def _host_time(window: Window, of: Selector | None = None) -> Answer:
    """How long a step, a region or an op takes on the host, as recorded; with a name, all its
    calls together: `host.time(aten::t) < 20 us`.
    """
    if of is None:
        return _number(_host_ns(window), TIME)
    window.need_all()
    events = host_events(window, of.text)
    if not events:
        raise Unknown(f"no {of.text} in {window.label}")
    length = int(window.evidence.trace.host.length[events].sum())
    return _number(length, TIME, events=tuple(events))


@quantity("gpu.time", TIME, typical=True)
def _gpu_time(window: Window) -> Answer:
    """Time in which the GPU runs anything, summed over the GPUs of a step."""
    window.need_gpu()
    if not len(window.rows):
        raise Unknown(f"no GPU operations in {window.label}")
    window.need_all()
    if window.lost:
        raise Unknown("some launches have no GPU event: the time is incomplete")
    trace = window.evidence.trace
    if not trace.gpu.usable[window.rows].all():
        raise Unknown("some GPU operations have no time")
    return _number(trace.spans.busy(window.span), TIME)


@quantity("gpu.busy", SHARE, typical=True)
def _gpu_busy(window: Window) -> Answer:
    """Share of the step in which the GPU works, without the profiler, as on the first screen."""
    if _is_typical(window):
        return _number(step_of(window).busy_share, SHARE)
    return _number(1 - _spent(window).idle_share, SHARE)


@quantity("gpu.idle", SHARE, typical=True)
def _gpu_idle(window: Window) -> Answer:
    """Share of the step in which the GPU does not work."""
    busy = _gpu_busy(window)
    assert isinstance(busy, Value)
    return _number(1 - busy.low, SHARE)


def _idle_by(cause: str) -> Callable[[Window], Answer]:
    def of(window: Window) -> Answer:
        spent = _spent(window)
        return _number(spent.idle_by_cause.get(cause, 0) / max(spent.recorded_ns, 1), SHARE)

    of.__doc__ = f"Share of the recorded step in which the GPU is idle because of `{cause}`."
    return of


for _cause in CAUSES:
    quantity(f"idle.{_cause}", SHARE, typical=True)(_idle_by(_cause))


@quantity("idle.inside", SHARE, 1, typical=True)
def _idle_inside(window: Window, of: Selector) -> Answer:
    """Share of the recorded step in which the GPU is idle and the host is inside an op, a call or a
    region: `idle.inside("enumerate(DataLoader)*") < 5%`.
    """
    window.need_all()
    trace, host = window.evidence.trace, window.evidence.trace.host
    idle = trace.idle if window.whole else trace.gaps.inside(idle_windows(trace, window.span))
    events = np.array(host_events(window, of.text), np.int64)
    if not len(events):
        raise Unknown(f"no {of.text} in {window.label}")
    inside = IntervalUnion(host.start[events], host.end[events]).between(idle.start, idle.end)
    length = trace.gpu.span(window.rows) if window.whole else window.length_ns
    return _number(int(inside.sum()) / max(length, 1), SHARE, events=tuple(events.tolist()))


@quantity("gap.longest", TIME, typical=True)
def _longest_gap(window: Window) -> Answer:
    """The longest time in which the GPU does nothing for one reason, as recorded."""
    gap = longest_gap(window)
    rows = (gap.then,) if gap.then >= 0 else ()
    return _number(gap.length_ns, TIME, rows=rows, note=f", {gap.cause}")


_GAP_CAUSES = tuple(cause for cause in CAUSES if cause != "unknown")


@quantity("gap.cause", WORD, words=_GAP_CAUSES, typical=True)
def _gap_cause(window: Window) -> Answer:
    """Why the longest gap is there: launch, host, sync, copy, queue, …"""
    cause = longest_gap(window).cause
    return Facts((None if cause == "unknown" else cause,))


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch in which the GPU does nothing; `then` is the row that ended it, or -1."""

    start_ns: int
    length_ns: int
    cause: str
    then: int


def longest_gap(window: Window) -> Gap:
    """The longest part of a gap that has one cause."""
    window.need_gpu()
    trace = window.evidence.trace
    idle = trace.idle if window.whole else trace.gaps.inside(idle_windows(trace, window.span))
    if not len(idle.start):
        raise Unknown(f"the GPU is never idle in {window.label}")
    at = int(np.argmax(idle.length))
    start, length = int(idle.start[at]), int(idle.length[at])
    return Gap(start, length, CAUSES[int(idle.cause[at])], int(idle.then[at]))


BOUNDS = ("host", "sync", "compute", "memory", "copy", "comms", "mixed")


@quantity("bound", WORD, words=BOUNDS)
def _bound(window: Window) -> Answer:
    """What bounds the step: host, sync, compute, memory, copy, comms or mixed."""
    word = (
        step_of(window).bound
        if _is_typical(window)
        else bounds.of_span(window.evidence.trace, window.span)
    )
    if word == "unknown":
        raise Unknown("the bound needs recorded shapes and a card with known peaks")
    return Facts((word,))


def _used(figure: str, clock: str, doc: str) -> Callable[[Window], Answer]:
    def of(window: Window) -> Answer:
        spans = [window.span] if window.alone else step_of(window).spans
        from foretrace.trace.utilization import utilization

        used = utilization(window.evidence.trace, spans)
        value = getattr(used, f"{figure}_{clock}")
        if value is None:
            raise Unknown(used.note or "FLOP and bytes need recorded shapes: record_shapes=True")
        return _number(value, SHARE)

    of.__doc__ = doc
    return of


for _figure, _what in (("mfu", "FLOP of matmuls and attention"), ("mbu", "Known bytes")):
    for _name, _clock, _over in (("", "wall", "the step"), ("gpu.", "gpu", "GPU time")):
        quantity(f"{_name}{_figure}", SHARE, typical=True)(
            _used(_figure, _clock, f"{_what} at the card's peak, as a share of {_over}.")
        )


@quantity("card", WORD, once=True)
def _card(window: Window) -> Answer:
    """The name of the card; a part of it is enough: `card == H200`."""
    name = window.evidence.trace.about.device
    if not name:
        raise Unknown("the trace does not name its card")
    return Facts((name,))


@quantity("peak", BYTES, once=True)
def _peak(window: Window) -> Answer:
    """The most GPU memory in use, as torch's allocator counts it; what was in use when a step or
    region began counts too: `in step 3: peak < 200 MB`.
    """
    span = (window.start_ns, window.end_ns)
    return _number(window.evidence.peak_bytes(*span, reserved=False), BYTES)


@quantity("peak.reserved", BYTES, once=True)
def _peak_reserved(window: Window) -> Answer:
    """The most GPU memory that the allocator reserved."""
    span = (window.start_ns, window.end_ns)
    return _number(window.evidence.peak_bytes(*span, reserved=True), BYTES)


@quantity("peak.held", BYTES, 1, once=True)
def _peak_held(window: Window, of: Selector) -> Answer:
    """What a category holds at the peak, by the allocator's snapshot: `peak.held(activations)`."""
    from foretrace.check.memory import view_held

    return _number(view_held(window.evidence.trace.memory_view, of.text), BYTES)


@quantity("growth", BYTES, 0, 2, once=True)
def _growth(window: Window, *steps: Selector) -> Answer:
    """How much more memory is live at the end of one step of the allocator's snapshot than of
    another, counted from 1: `growth(2, 9) <= 0 B`; by default from the second to the last. Less
    than 0.1% of the peak for each step is 0.
    """
    from foretrace.check.memory import view_growth

    return view_growth(window.evidence.trace.memory_view, tuple(each.text for each in steps))


def _compiler(name: str, unit: str, doc: str) -> Callable[[Window], Answer]:
    def of(window: Window) -> Answer:
        from foretrace.check import compiled

        fact = getattr(compiled, name)(window.evidence.trace)
        where = f" ({', '.join(fact.places[:3])})" if fact.places else ""
        measures = unit if unit in SIZES else PLAIN
        return Value(fact.low, fact.high, measures, unit, why=fact.missing, note=where)

    of.__doc__ = doc
    return of


for _name, _fact, _unit, _doc in (
    (
        "graph_breaks",
        "graph_breaks",
        COUNT,
        "Lines at which Dynamo ended a graph; a line counts once, however often it was compiled.",
    ),
    ("recompiles", "recompiles", COUNT, "How often code was compiled again."),
    (
        "graphs",
        "graphs",
        COUNT,
        "Graphs that Dynamo made: one for each version of each part of a function.",
    ),
    ("compile.time", "compile_ns", TIME, "What compiling took in all."),
):
    quantity(_name, _unit, once=True)(_compiler(_fact, _unit, _doc))


@quantity("speedup", "ratio", 1, 8, once=True)
def _speedup(window: Window, *of: Selector) -> Answer:
    """How many times faster a step is predicted to be with a fix, or several."""
    before, after = _predicted(window, of)
    return _number(before / after, "ratio")


@quantity("predicted.step", TIME, 1, 8, once=True)
def _predicted_step(window: Window, *of: Selector) -> Answer:
    """A step with a fix, or several, as the replay predicts it; also `after(compile).step`."""
    return _number(_predicted(window, of)[1], TIME)


def _predicted(window: Window, of: Sequence[Selector]) -> tuple[float, float]:
    replayed = window.evidence.replayed
    if replayed is None:
        raise Unknown("the step of this trace cannot be replayed: look --fixes says why")
    names = [selector.text for selector in of]
    chosen = {each.fix: each for each in replayed.every}
    missing = [name for name in names if name not in chosen]
    if missing:
        there = ", ".join(chosen) or "none"
        raise Unknown(f"the fix {missing[0]} does not apply to this trace; those that do: {there}")
    return replayed.now_ns, replayed.together([chosen[name] for name in names])


@quantity("fused", TRUTH, 1, 6)
def _fused(window: Window, *of: Selector) -> Answer:
    """Whether one kernel does all of these ops: `fused(gelu, mul)`; a part of a model alone is
    fused when one kernel does all of it: `fused(rmsnorm)`, `fused(optimizer)`.
    """
    from foretrace.check import fused as fusion

    return Truth(*fusion.fused(window, [selector.text for selector in of]))


@quantity("separated", WORD, 2)
def _separated(window: Window, one: Selector, other: Selector) -> Answer:
    """Why two ops are not one kernel, by the compiler's records: extern, template, order, sizes,
    between, mutation, graph_break, …: `separated(matmul, gelu) == extern`; or `fused`.
    """
    from foretrace.check import fused as fusion

    return Facts(fusion.separated(window.evidence.trace, {one.text, other.text}))


@quantity("epilogue", TRUTH, 1, 2)
def _epilogue(window: Window, of: Selector, op: Selector | None = None) -> Answer:
    """Whether every matmul does an op on its result, as in `epilogue(gemm, gelu)`; alone, which."""
    if op is None:
        return _facts(window, of, "epilogue")
    chosen = _some(window, of)
    wanted = {"bias": "add"}.get(op.text, op.text)
    does = [window.evidence.operation(row) for row in chosen.sure]
    answers = [
        True if wanted in one.does else None if wanted in one.may_do else False for one in does
    ]
    holds = False if False in answers else None if None in answers else True
    names = ", ".join(dict.fromkeys(one.label for one in does))
    return Truth(
        holds,
        names,
        "a name does not say what the kernel does" * (holds is None),
        tuple(chosen.sure),
    )


@quantity("tensor_cores", TRUTH, 1)
def _tensor_cores(window: Window, of: Selector) -> Answer:
    """Whether all of them compute on tensor cores."""
    facts = _facts(window, of, "tensor_core")
    return Truth(_all(facts, bool), facts.text, rows=facts.rows)


def _all(facts: Facts, test: Callable[[Any], bool]) -> bool | None:
    answers = [None if value is None else test(value) for value in facts.values]
    return False if False in answers else None if None in answers else True


@quantity("order", TRUTH, 2, 40)
def _order(window: Window, *of: Selector) -> Answer:
    """Whether kernels are launched in this order and no others: `order(gate, up, mul, down)`.

    The list may repeat. A word that names no kernel (`gate`) stands for any matmul.
    """
    window.need_gpu()
    if window.gap or window.lost:
        raise Unknown(window.gap or "some launches have no GPU event")
    rows = [row for row in window.rows.tolist() if window.evidence.operation(row).kind == "kernel"]
    wanted = [set(choose(window, _kernel_of(each)).sure) for each in of]
    holds = bool(rows) and len(rows) % len(wanted) == 0
    holds = holds and all(row in wanted[at % len(wanted)] for at, row in enumerate(rows))
    shown = ", ".join(window.evidence.operation(row).label for row in rows[:12])
    return Truth(holds, shown + (" …" if len(rows) > 12 else ""), rows=tuple(rows))


_LAYERS = ("gate", "up", "down", "q", "k", "v", "o", "qkv", "fc1", "fc2", "lm_head", "head")


def _kernel_of(of: Selector) -> Selector:
    return Selector(of.at, "gemm") if of.text in _LAYERS else of


@quantity("before", TRUTH, 2)
def _before(window: Window, first: Selector, second: Selector) -> Answer:
    """Whether the first of one begins before the first of the other; kernels by their launch."""
    one, other = (_begins(window, of) for of in (first, second))
    return Truth(
        one < other, f"{time_text(abs(other - one))} {'before' if one < other else 'after'}"
    )


def _begins(window: Window, of: Selector) -> int:
    window.need_all()
    trace = window.evidence.trace
    events = host_events(window, of.text) if '"' in of.text or "::" in of.text else []
    known = "*" not in of.text and of.text in trace.host.names
    if known:
        events = host_events(window, of.text)
    if events:
        return int(trace.host.start[events].min())
    if known:
        raise Unknown(f"no {of.text} in {window.label}")
    chosen = _some(window, of)
    starts = trace.gpu.launched if chosen.on_gpu else trace.host.start
    return int(starts[chosen.sure].min())


@quantity("under", TRUTH, 2, 8)
def _under(window: Window, of: Selector, *above: Selector) -> Answer:
    """Whether each runs in these ops, regions and steps, the outermost first; others may lie
    between them: `under(gemm, aten::linear, aten::mm)`.
    """
    launch = window.evidence.trace.gpu.launch
    events = host_events(window, of.text) if "::" in of.text else []
    chosen = Chosen(False, events) if events else _some(window, of)
    places = [int(launch[at]) if chosen.on_gpu else at for at in chosen.sure]
    if -1 in places or window.gap:
        raise Unknown(window.gap or "some launches were not recorded")
    chains = [_around(window.evidence, at) for at in places]
    wanted = [each.text.strip('"') for each in above]
    holds = [_in_turn(wanted, chain) for chain in chains]
    shown = " > ".join(chains[holds.index(False) if False in holds else 0])
    wrong = tuple(at for at, held in zip(chosen.sure, holds, strict=True) if not held)
    rows, calls = (wrong, ()) if chosen.on_gpu else ((), wrong)
    return Truth(all(holds), shown, rows=rows, events=calls)


def _around(evidence: Evidence, event: int) -> list[str]:
    """The names of the ops, regions and steps around a host event, the outermost first."""
    host, names = evidence.trace.host, list[str]()
    while event >= 0:
        if host.is_op[event] or host.is_region[event] or host.is_step[event]:
            names.append(evidence.name(event))
        event = int(host.parent[event])
    return names[::-1]


def _in_turn(wanted: Sequence[str], chain: Sequence[str]) -> bool:
    left = iter(chain)
    return all(any(glob(each, name) for name in left) for each in wanted)


@quantity("preceded", COUNT, 2)
def _preceded(window: Window, of: Selector, by: Selector) -> Answer:
    """How many directly follow another GPU operation on their stream, or a call of the host in the
    same op: `preceded(gemm, memset) == count(gemm)`, `preceded(gemm, "cudaOccupancy*") == 0`.
    """
    trace, chosen = window.evidence.trace, _some(window, of)
    call = by.text.strip('"')
    if call.startswith(("cuda", "cu", "hip")):
        host = trace.host
        calls = np.array(host_events(window, by.text), np.int64)
        answers = []
        for row in chosen.sure:
            launch = int(trace.gpu.launch[row])
            mine = calls[
                (host.parent[calls] == host.parent[launch])
                & (host.start[calls] < host.start[launch])
            ]
            answers.append(bool(len(mine)))
    else:
        others = set(choose(window, by).sure)
        lanes: dict[int, int] = {}
        before: dict[int, int] = {}
        for row in trace.gpu.launch_order.tolist():
            lane = int(trace.gpu.lane[row])
            before[row] = lanes.get(lane, -1)
            lanes[lane] = row
        answers = [before[row] in others for row in chosen.sure]
    note = f" of {len(answers):,}"
    return _number(sum(answers), COUNT, rows=tuple(chosen.sure), note=note)


@quantity("overlap", SHARE, 2, typical=True)
def _overlap(window: Window, one: Selector, other: Selector) -> Answer:
    """How much of the time of one runs beside the other: `overlap(comms, gemm) > 50%`."""
    gpu = window.evidence.trace.gpu
    first, second = (_some(window, of).sure for of in (one, other))
    spans = IntervalUnion(gpu.start[second], gpu.end[second])
    mine = IntervalUnion(gpu.start[first], gpu.end[first])
    beside = int(spans.between(mine.start, mine.end).sum())
    return _number(beside / max(int((mine.end - mine.start).sum()), 1), SHARE, rows=tuple(first))


@quantity("same", TRUTH, 1, 2)
def _same(window: Window, of: Selector, how: Selector | None = None, *, other: Window) -> Answer:
    """Whether `a` and `b` launch the same kernels, equally often: `same(gemm)`; also with the same
    grid, block, registers and shared memory: `same(gemm, footprint)`; or the same ops: `same(op)`.
    """
    counts = [_bag(each, of, _FOOTPRINT if how else ()) for each in (window, other)]
    differ = {
        name for name in counts[0].keys() | counts[1].keys() if counts[0][name] != counts[1][name]
    }
    shown = ", ".join(sorted(differ)[:3]) or "the same"
    return Truth(not differ, shown)


_FOOTPRINT = ("grid", "block", "registers", "shared_memory")


def _bag(window: Window, of: Selector, fields: Sequence[str]) -> Counter[str]:
    window.need_all()
    if of.text == "op":
        return Counter(map(window.evidence.name, host_events(window, of.text)))
    chosen, evidence = _certain(window, of), window.evidence
    if not chosen.on_gpu:
        return Counter(map(evidence.name, chosen.sure))
    stated = [[evidence.fact(row, field) for field in fields] for row in chosen.sure]
    if any(None in values for values in stated):
        raise Unknown("the trace does not say how some kernels were launched")
    names = (evidence.operation(row).name for row in chosen.sure)
    return Counter(
        " ".join([name, *map(fact_text, values)])
        for name, values in zip(names, stated, strict=True)
    )


# Fields of kernels: from the name, the launch, the op's arguments, the roofs.
_FACTS = {
    "dtype": "The data type that they compute in, by the name, else by the op's arguments.",
    "library": "The library that they come from.",
    "template": "ATen's template: vectorized_elementwise_kernel.",
    "functor": "ATen's functor: GeluCUDAKernelImpl.",
    "arch": "The architecture that they were built for: sm90.",
    "family": "The family of their names.",
    "layout": "The layout of a matmul's operands: tn, nn, nt or tt.",
    "tile": "The tile of a matmul or attention kernel: `tile(gemm) == 256x128`.",
    "registers": "Registers per thread.",
    "shared_memory": "Shared memory per block in bytes.",
    "occupancy": "Occupancy in percent, as the profiler estimates it.",
    "grid": "The grid of the launch.",
    "block": "The block of the launch.",
    "vec": "Elements per thread and access.",
    "splitk": "Whether the depth of a matmul is split.",
    "stages": "Stages of the pipeline.",
    "causal": "Whether attention is causal.",
    "head_dim": "The head size of attention.",
    "roof": "Percent of the nearest roof.",
    "limited": "What bounds each kernel: compute, memory, latency, l2.",
    "launcher": "The call that launched them: `launcher(gemm) == cuLaunchKernelEx`.",
    "caller": "The innermost op above them.",
    "category": "What Inductor calls the kernel: pointwise, reduction, persistent_reduction.",
}


def _facts(window: Window, of: Selector, name: str) -> Facts:
    chosen = _some(window, of)
    if not chosen.on_gpu:
        raise Unknown(f"{name} belongs to GPU kernels: this program runs on a CPU")
    values = [window.evidence.fact(row, name) for row in chosen.sure]
    return Facts(tuple(values), tuple(chosen.sure))


def _stated(name: str, doc: str) -> Callable[[Window, Selector], Answer]:
    def of(window: Window, selector: Selector) -> Answer:
        return _facts(window, selector, name)

    of.__doc__ = doc
    return of


_FACTS |= {name: f"The {fact.head} of kernels." for name, fact in facts().items() if fact.head}
_WORDS = {
    "dtype": (*DTYPES, *(f"{sign}{bits}" for sign in "iu" for bits in (8, 16, 32, 64)), "bool"),
    "layout": ("tn", "nn", "nt", "tt", "none"),
    "limited": ("compute", "memory", "latency", "l2", "comms", "copy"),
}
for _field, _doc in _FACTS.items():
    quantity(_field, WORD, 1, words=_WORDS.get(_field, ()))(_stated(_field, _doc))


@quantity("name", WORD, 1)
def _called(window: Window, of: Selector) -> Answer:
    """The names, as in the trace: `name(first gemm) == name(last gemm)`; of all ops `name(op)`."""
    chosen = Chosen(False, host_events(window, "op")) if of.text == "op" else _some(window, of)
    if chosen.on_gpu:
        return _facts(window, of, "name")
    return Facts(tuple(map(window.evidence.name, chosen.sure)), events=tuple(chosen.sure))


@quantity("shapes", WORD, 1)
def _shapes(window: Window, of: Selector) -> Answer:
    """The shapes of the tensors that calls of an op took, or the first of them:
    `shapes(aten::mm) == "8192x768, 768x3072"`.
    """
    return _inputs(window, of, "shapes")


@quantity("strides", WORD, 1)
def _strides(window: Window, of: Selector) -> Answer:
    """The strides of the tensors that calls of an op took."""
    return _inputs(window, of, "strides")


def _inputs(window: Window, of: Selector, what: str) -> Facts:
    window.need_all()
    events = host_events(window, of.text, "op")
    if not events:
        raise Unknown(f"no op {of.text} in {window.label}")
    found = [window.evidence.inputs(event, what) for event in events]
    texts = [
        None if each is None else ", ".join("x".join(map(str, dims)) for dims in each)
        for each in found
    ]
    if all(text is None for text in texts):
        raise Unknown(f"{what} need record_shapes=True")
    return Facts(tuple(texts))


def _of_package(brought: Quantity) -> Quantity:
    """A quantity of another package, which may fail: it then has no answer."""

    def of(*given: Any) -> Answer:
        answer: Answer | None = brought.of(*given)
        if answer is None:
            raise Unknown(f"`{brought.name}` has no answer")
        return answer

    of.__doc__ = brought.of.__doc__
    return replace(brought, of=of)


QUANTITIES |= {
    each.name: _of_package(each) for each in plugins.entries(Quantity, "foretrace.quantities")
}


def quantities() -> Sequence[Quantity]:
    """The table, in order of name."""
    return [QUANTITIES[name] for name in sorted(QUANTITIES)]


def nearest_quantities(text: str) -> list[str]:
    """Quantities that words may mean: by their names, then by what the manual says of them."""
    words = [
        word for word in re.findall(r"[a-z_.]{2,}", text.lower()) if word not in _EMPTY.split()
    ]
    meant = [_MEANT[word] for word in words if word in _MEANT]
    same = [name for word in words for name in QUANTITIES if _bare(name) == _bare(word)]
    by_name = [name for word in words for name in nearest(word, list(QUANTITIES), 2)]
    known = {name: sum(part in words for part in re.split(r"[._]", name)) for name in QUANTITIES}
    parts = sorted((name for name in known if known[name]), key=lambda name: -known[name])
    meant += ["dtype"] if any(word in text.lower().split() for word in DTYPES) else []
    scores = {
        name: sum(
            bool(re.search(rf"\b{re.escape(word)}s?\b", each.manual.lower())) for word in words
        )
        for name, each in QUANTITIES.items()
    }
    by_manual = sorted((name for name in scores if scores[name]), key=lambda name: -scores[name])
    near = nearest(text, list(QUANTITIES), 1)
    whole = [name for name in parts if known[name] > 1]  # `gpu idle`
    found = [*meant, *whole, *same, *near, *parts, *by_name[:1], *by_manual]
    return list(dict.fromkeys(found))[:3]


def _bare(name: str) -> str:
    return re.sub(r"[._]", "", name.lower()).removesuffix("s")


# what others call it
_MEANT = {"memory": "peak", "sync": "waits", "syncs": "waits", "wall": "step.time"}
_MEANT |= {
    "memcpy": "memcpys",
    "memset": "memsets",
    "breaks": "graph_breaks",
    "loader": "idle.inside",
    "average": "mean",
    "avg": "mean",
    "type": "dtype",
    "duration": "step.time",
    "utilization": "gpu.busy",
}
_EMPTY = "a about all and are be by every everything for in is it of on or than the to"
