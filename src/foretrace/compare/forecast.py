"""`look A --guess --then B --json`: what a reader and the replay expect of B, from A alone.

The reader knows A and the change, and states how many kernels a step of B launches, what its
kernels beside the matmuls move, and how long the GPU is busy; where the run record of A has the
time of a step without the profiler, also that of B. The replay answers the same questions from A
alone. Then both are marked on B.

A count must be right. A number of bytes or a time may be 10% off. An interval must contain what was
measured, and its ends may be a factor of two apart. A time of the replay is the interval of its
worst and best case, and 5% more: two recordings of one program differ by that.

When it is wrong: the bytes of a compiled kernel are an estimate, those of a replayed CUDA graph are
unknown. The replay knows the fixes of `look --fixes`, and no other change.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from operator import itemgetter
from statistics import median
from typing import Annotated

from msgspec import Meta, Struct

from foretrace.base.errors import UsageError
from foretrace.base.patterns import regex
from foretrace.base.tables import TEXT, WORDS, Column, Line, Table, paragraphs
from foretrace.base.terminal import stem
from foretrace.base.units import DASH, bytes_text, count_text, range_text, time_text
from foretrace.check.language import UNITS
from foretrace.compare import compare
from foretrace.compare.verdict import made_between
from foretrace.look.fixes import GPU, FixPrediction, Predicted, both, fixes, predicted
from foretrace.look.rules.fusion import OPAQUE
from foretrace.read.compiler import records as compiled
from foretrace.read.recordings import typed_as
from foretrace.trace import bounds
from foretrace.trace.bounds import measured_spans
from foretrace.trace.replay import GraphChange
from foretrace.trace.trace import Trace

NEAR = 0.1  # of a number that is stated alone
TEXTS = {"kernels": count_text, "bytes": bytes_text, "gpu_ns": time_text, "step_ns": time_text}
_ASKED = {
    "kernels": "How many kernels does {} launch?",
    "bytes": "How much do its kernels beside matmuls and attention move? (such as 1 GB)",
    "gpu_ns": "How long is the GPU busy in {}? (such as 1 to 2 ms)",
    "step_ns": "How long is {} without the profiler? (such as 1 to 2 ms)",
}
_ANSWER = regex(r"(\d{1,12}(?:\.\d{1,9})?) ?([a-zµ]*)", re.IGNORECASE | re.ASCII)
_BETWEEN = regex(r"-|–|\bto\b|\band\b")
UNREPLAYED = "no step can be replayed: it needs launches, GPU work and one clock"
NO_FIX = "no fix that foretrace knows leads from A to B: the replay has no answer"
NOTHING_FUSES = (
    "compiled, and A has nothing beside its matmuls to fuse: the same kernels are expected"
)

Interval = tuple[float, float]


class MarkedForecast(Struct, frozen=True):
    """An expected value, or an interval of it; `verdict` is unknown where B does not decide."""

    low: float
    high: float
    verdict: Annotated[str, Meta(pattern="^(hit|miss|unknown)$")]


class ForecastEntry(Struct, frozen=True):
    """One quantity of a step in A and B, and what was expected of B.

    `name` is kernels, bytes (memory traffic of the kernels beside matmuls and attention), gpu_ns
    (GPU busy) or step_ns (without the profiler). `you` is None for a question that was skipped,
    `replay` where the replay does not say; `b` is None where B does not have it.
    """

    name: str
    a: float
    you: MarkedForecast | None
    replay: MarkedForecast | None
    b: float | None


class Forecast(Struct, frozen=True):
    """`fix` leads from A to B, and `order` is what to write; `reason` why the replay says nothing.

    `per` is what the quantities are for: a step, or a call of a region.
    """

    schema: int
    a: str
    b: str
    per: str
    fix: str
    order: str
    entries: list[ForecastEntry]
    reason: str = ""


DOCUMENTS = {"forecast": Forecast}


class AskedForecast(Struct, frozen=True):
    """One question about B: the quantity, its words, and what A has."""

    name: str
    text: str
    now: float

    def answer(self, given: str) -> Interval:
        """The interval that an answer means; `UsageError` where it means none."""
        said = given.strip().lower().replace("µ", "u").removeprefix("between ")
        parts = [_ANSWER.fullmatch(part.strip()) for part in _BETWEEN.split(said.lstrip("~"))]
        if not 1 <= len(parts) <= 2 or None in parts:
            raise UsageError(f"{given.strip()!r} is not an answer: {self._wanted}")
        units = self._units([part[2] for part in parts if part])
        ends = [float(part[1]) * unit for part, unit in zip(parts, units, strict=True) if part]
        if len(ends) == 1:
            near = 0.0 if self.name == "kernels" else NEAR
            return ends[0] * (1 - near), ends[0] * (1 + near)
        low, high = sorted(ends)
        if high > 2.0 * low:  # the ends of an interval: a wider one says too little
            raise UsageError("that says too little: the ends may be a factor of two apart")
        return low, high

    @property
    def _wanted(self) -> str:
        return "enter " + ("a whole number" if self.name == "kernels" else "a number and its unit")

    def _units(self, words: list[str]) -> list[float]:
        """What each number is counted in; the first of two has the unit of the second."""
        kind = {"kernels": "count", "bytes": "bytes"}.get(self.name, "time")
        known = {unit.lower(): size for unit, (measures, size) in UNITS.items() if measures == kind}
        known |= {"": 1.0} if kind == "count" else {}
        given = [word or words[-1] for word in words]
        if any(word not in known for word in given):
            raise UsageError(f"{self._wanted}, such as {TEXTS[self.name](self.now)}")
        return [known[word] for word in given]


def asked(a: Trace, b: Trace | None = None) -> list[AskedForecast]:
    """The questions that A gives a number for; raises where B is another program."""
    if b is not None and measured_spans(a)[0] != measured_spans(b)[0]:
        raise UsageError("A and B repeat different things: record both with the same steps")
    if b is not None and (verdict := compare(a, b).verdict).answer == "different":
        raise UsageError(f"B must be A's program after a change: {verdict.text}")
    one = f"one {measured_spans(a)[0].removeprefix('per ')} of B"
    held = {name: now for name, now in _held(a).items() if now}
    return [AskedForecast(name, _ASKED[name].format(one), now) for name, now in held.items()]


def forecast(a: Trace, b: Trace, answers: dict[str, Interval]) -> Forecast:
    """What the reader and the replay expect of B, marked."""
    before, measured = predicted(a), _held(b)
    made = _made(before, b) if before else []
    expected = _expected(before, made, _held(a)) if before and made else {}
    reason = "" if made else NO_FIX if before else UNREPLAYED
    if before and not made and _is_compiled(b) and _held(a).get("bytes") == 0:
        expected, reason = _expected(before, made, _held(a)), NOTHING_FUSES
    entries = [
        ForecastEntry(
            name,
            now,
            _mark(answers.get(name), measured.get(name)),
            _mark(expected.get(name), measured.get(name)),
            measured.get(name),
        )
        for name, now in _held(a).items()
        if now
    ]
    names, orders = [each.fix for each in made], [each.proposal.order for each in made]
    said = ", ".join(names), ", ".join(orders), entries, reason
    return Forecast(1, a.path, b.path, measured_spans(a)[0], *said)


def _mark(guess: Interval | None, measured: float | None) -> MarkedForecast | None:
    if guess is None:
        return None
    low, high = guess
    verdict = "unknown" if measured is None else "hit" if low <= measured <= high else "miss"
    return MarkedForecast(low, high, verdict)


def _held(trace: Trace) -> dict[str, float]:
    """What a step of a trace has, as medians; what is unknown is left out."""
    spans, gpu = measured_spans(trace)[1], trace.gpu
    if not spans or trace.ledger.gap:
        why = trace.ledger.gap or "it has no steps with GPU work"
        raise UsageError(f"{trace.path}: nothing can be predicted or marked here: {why}")
    traffic = [_traffic(trace, span.work.tolist()) for span in spans]
    times = [time for span in spans if (time := bounds.spent(trace, span)) is not None]
    found = {
        "kernels": median(int(gpu.is_kernel[span.work].sum()) for span in spans),
        "bytes": None if None in traffic else median(each for each in traffic if each is not None),
        "gpu_ns": trace.spans.median_busy(spans),
        "step_ns": None
        if any(time.profiled for time in times)
        else median(time.wall_ns for time in times),
    }
    return {name: float(value) for name, value in found.items() if value is not None}


def _traffic(trace: Trace, rows: Sequence[int], change: GraphChange | None = None) -> float | None:
    """What the kernels beside matmuls and attention move; None where that of one is unknown."""
    number, change = trace.order.case_of_work, change or GraphChange()
    total = 0.0
    for row in rows:
        if number[row] < 0 or row in change.gone:
            continue
        case = trace.kernel_rows[number[row]]
        if case.role in OPAQUE:
            continue
        known = None if row in change.length else case.bytes
        count = change.moved.get(row, known)
        if count is None or count == float("inf"):
            return None
        total += count
    return total


def _made(before: Predicted, b: Trace) -> list[FixPrediction]:
    """The fixes that lead from a step to B. Where one is general (compiled code, a CUDA graph), the
    causes of others are gone with the ops that showed them, and prove nothing.
    """
    after = predicted(b)
    if after is None:  # B is not replayed, but its rows show compiled code
        return [each for each in before.every if _is_compiled(b) and each.fix == "compile"]
    found = made_between(before.every, after)
    general = {fix.name for fix in fixes() if fix.general}
    return [each for each in found if each.fix in general] or found[:1]


def _is_compiled(trace: Trace) -> bool:
    return any(map(compiled.is_row, trace.host.names))


def _expected(
    found: Predicted, made: list[FixPrediction], now: dict[str, float]
) -> dict[str, Interval]:
    """What the replay of A expects with these fixes."""
    step, said = found.step, [each.proposal for each in made]
    change, best, worst = (
        reduce(both, changes, GraphChange())
        for changes in (
            [each.change for each in said],
            [each.best or each.change for each in said],
            [each.worst or each.change for each in said],
        )
    )
    kernels = now["kernels"] - int(step.trace.gpu.is_kernel[[*change.gone]].sum())
    busy = [now["gpu_ns"] + step.added_ns(each) for each in (change, best, worst)]
    expected = {"kernels": (kernels, kernels), "gpu_ns": (min(busy) * GPU[0], max(busy) * GPU[1])}
    if made:  # A does not say what calling compiled code takes on the host
        expected["step_ns"] = found.interval(made)
    traffic = _traffic(step.trace, step.rows.tolist(), change)
    if traffic is not None:
        expected["bytes"] = traffic * (1 - NEAR), traffic * (1 + NEAR)
    return expected


_NAMES = {
    "kernels": "kernels",
    "bytes": "traffic*",
    "gpu_ns": "GPU busy",
    "step_ns": "step, no profiler",
}
_KNOWN = {
    "kernels": "kernels {} per step",
    "bytes": "{} moved by the kernels beside matmuls and attention",
    "gpu_ns": "GPU busy {}",
    "step_ns": "step {} without the profiler",
}
_BESIDE = "* memory traffic of the kernels beside matmuls and attention"
# why the replay of compiled code can be wrong: what it takes for granted
_MODEL = {
    "kernels": "makes one kernel of every group that can fuse, one for each reduction in it",
    "bytes": "counts each input and output of a fused group once, the least that must move",
    "gpu_ns": "gives a fused kernel 75% of the bandwidth",
    "step_ns": "gives compiled code a fixed host time for its call and each kernel",
}


_COLUMNS = (
    Column("", itemgetter(0), WORDS),
    Column("A", itemgetter(1), TEXT),
    Column("you", itemgetter(2), TEXT),
    Column("", itemgetter(3), WORDS),
    Column("replay", itemgetter(4), TEXT),
    Column("", itemgetter(5), WORDS),
    Column("B", itemgetter(6), TEXT),
)


def questions_page(a: Trace, then: str) -> list[Table]:
    """What the reader may know of A, before the questions."""
    known = ", ".join(_KNOWN[each.name].format(TEXTS[each.name](each.now)) for each in asked(a))
    about = Line("A", f"{stem(a.path)}: {known}")
    return [Table(lines=[about, Line("B", f"{then}: the same program after the change")])]


def page(found: Forecast) -> list[Table]:
    """A row for each quantity, then what the replay took for granted where it missed."""
    heads = [("A", stem(found.a)), ("B", f"{stem(found.b)}: {found.order or found.reason}")]
    rows = []
    for each in found.entries:
        text, cells = TEXTS[each.name], list[str]()
        for said in (each.you, each.replay):
            cells += [range_text(said.low, said.high, text), said.verdict] if said else [DASH, ""]
        rows.append([_NAMES[each.name], text(each.a), *cells, text(each.b)])
    beside = f"{_BESIDE}; " if any(each.name == "bytes" for each in found.entries) else ""
    sides = {
        "you": [each.you for each in found.entries if each.you],
        "the replay": [each.replay for each in found.entries if each.replay],
    }
    counts = [
        f"{who} {sum(each.verdict == 'hit' for each in marks)} of {len(marks)}"
        for who, marks in sides.items()
        if marks
    ]
    score = beside + (", ".join(counts) or "nobody said anything")
    wrong = [each.name for each in found.entries if each.replay and each.replay.verdict == "miss"]
    notes = [f"{_NAMES[name].rstrip('*')}: the replay {_MODEL[name]}" for name in wrong]
    notes = notes if found.fix == "compile" else []
    more = f"more: foretrace compare {typed_as(found.a)} {typed_as(found.b)} --kernels"
    return [
        Table(lines=[Line(*each) for each in heads]),
        Table("", _COLUMNS, rows, score),
        paragraphs("", *notes, more),
    ]
