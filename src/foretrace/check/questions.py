"""Guess first: five numbers, asked before anything is shown, and the screen's own beside them.

No syntax: `180`, `7 ms`, `15%`, `host`. The largest miss says what it means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

from foretrace.base.errors import UsageError
from foretrace.base.tables import TEXT, WORDS, Column, Line, Table
from foretrace.base.units import ratio_text
from foretrace.check.documents import MarkedAnswer
from foretrace.check.evidence import Evidence
from foretrace.check.judging import COUNT, SHARE, SHOWN, Facts, Value
from foretrace.check.language import TIME, UNITS, Quantity, Scope, Selector, Unknown, nearest
from foretrace.check.marking import Marker
from foretrace.check.quantities import BOUNDS
from foretrace.check.windows import NoSuchPlace
from foretrace.trace.trace import Trace

NEAR = 1.25  # a number this many times too large or too small is near


@dataclass(frozen=True, slots=True)
class Question:
    """`low` and `high` say what a real number far below or above a guess means."""

    name: str
    text: str
    unit: str
    real: float | str
    low: str
    high: str

    def answer(self, given: str) -> float | str:
        """What a person typed, as a number in base units or a bound; `UsageError` otherwise."""
        word = given.strip().lower()
        if self.unit == "word":
            chosen = [
                bound for bound in BOUNDS if word and bound.startswith(word.removesuffix("-bound"))
            ]
            if len(chosen) != 1:
                near = nearest(word, BOUNDS, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise UsageError(f"enter one of {', '.join(BOUNDS)}{hint}")
            return chosen[0]
        number = re.fullmatch(r"([\d.,_]+)\s*([^\d\s]*)", given.strip())
        try:
            value = float((number[1] if number else "").replace(",", "").replace("_", ""))
        except ValueError:
            raise UsageError(f"enter a number, as in {_EXAMPLES[self.unit]}") from None
        unit = number[2] if number else ""
        if unit and (unit not in UNITS or (self.unit == TIME) != (UNITS[unit][0] == TIME)):
            raise UsageError(f"enter a number, as in {_EXAMPLES[self.unit]}")
        if self.unit == TIME and not unit:
            raise UsageError("say the unit as well: 7 ms, 300 us")
        if self.unit == SHARE and not unit:
            return value / 100 if value > 1 else value
        return value * (UNITS[unit][1] if unit else 1)

    def shown(self, value: float | str) -> str:
        """A value for people."""
        return value if isinstance(value, str) else SHOWN[self.unit](value)


_EXAMPLES = {COUNT: "180", TIME: "7 ms", SHARE: "15%"}
_ASKED = (
    (
        Quantity(0, "kernels"),
        "How many kernels does one step launch?",
        "The step launches far more kernels than it seems: each op of the code is one or several.",
        "The step launches fewer kernels than it seems: several ops run as one kernel.",
    ),
    (
        Quantity(0, "step.time"),
        "How long does a step take without the profiler? (7 ms)",
        "The step takes longer: what the GPU waits for is not in the arithmetic.",
        "The step is quicker: count the bytes and FLOP again that it must move and do.",
    ),
    (
        Quantity(0, "gpu.busy"),
        "How much of a step does the GPU work? (60%)",
        "The GPU is busier: faster kernels, or fewer bytes, would shorten the step.",
        "The GPU waits more: faster kernels would change little, fewer launches or waits would.",
    ),
)


def questions(trace: Trace) -> list[Question]:
    """The questions that this trace can decide; none when it is incomplete."""
    if trace.ledger.gap:
        return []
    marker, asked = Marker(Evidence(trace)), list[Question]()
    place = marker.places(Scope())[0]
    on_cpu = marker.evidence.runs_on_cpu
    for node, text, low, high in _ASKED:
        try:
            value = marker.quantity(node, place)
        except (Unknown, NoSuchPlace):
            continue
        if isinstance(value, Value) and value.low == value.high:
            text = (
                text.replace("kernels does one step launch", "ops compute in one step")
                if on_cpu
                else text
            )
            unit = value.shown_as
            asked.append(Question(node.name, text, unit, value.low, low, high))
    if largest := _largest(marker):
        asked.append(largest)
    try:
        bound = marker.quantity(Quantity(0, "bound"), place)
    except (Unknown, NoSuchPlace):
        return asked
    if isinstance(bound, Facts) and isinstance(bound.values[0], str):
        text = f"What bounds a step? ({', '.join(BOUNDS)})"
        means = {"host": "The GPU waits for launches: faster kernels would change nothing."}
        means |= {"sync": "The host waits for the GPU, and launches nothing meanwhile."}
        said = means.get(bound.values[0], "The GPU is kept busy: its kernels decide the time.")
        asked.append(Question("bound", text, "word", bound.values[0], said, said))
    return asked


def _largest(marker: Marker) -> Question | None:
    """The share of the group of the first screen that takes the most GPU time."""
    trace, place = marker.evidence.trace, marker.windows[0]
    shares = dict[str, float]()
    for name in trace.grouped.names:
        try:
            value = marker.quantity(Quantity(0, "share", (Selector(0, f'"{name}"'),)), place)
        except (Unknown, NoSuchPlace):
            continue
        if isinstance(value, Value):
            shares[name] = value.low
    if not shares:
        return None
    name = max(shares, key=lambda each: shares[each])
    return Question(
        f"share({name})",
        f"{name} takes the most GPU time: how much of it? (40%)",
        SHARE,
        shares[name],
        f"{name} alone decides more of the step than it seems.",
        f"The rest beside {name} takes more of the step than it seems.",
    )


def marked(asked: Sequence[Question], given: Mapping[str, str]) -> list[MarkedAnswer]:
    """Each question that was answered: your number, the real one, and how far it is off."""
    rows = []
    for question in asked:
        if question.name not in given:
            continue
        yours = question.answer(given[question.name])
        times = 1.0
        if isinstance(yours, float) and isinstance(question.real, float | int):
            times = _times(yours, float(question.real))
        right = yours == question.real if isinstance(yours, str) else 1 / NEAR <= times <= NEAR
        low, high = question.low, question.high
        shown = question.shown(yours), question.shown(question.real)
        rows.append(MarkedAnswer(question.name, *shown, times, right, low if times > 1 else high))
    return rows


def _times(yours: float, real: float) -> float:
    """How many times larger the real number is; shares are compared from both ends."""
    least = 1e-3 * max(yours, real, 1e-9)
    return max(real, least) / max(yours, least)


def lines(rows: Sequence[MarkedAnswer]) -> list[Table]:
    """A row for each answer, and what the largest miss means."""
    columns = (
        Column("", "name", WORDS),
        Column("you", "yours", TEXT),
        Column("it is", "real", TEXT),
        Column("", _verdict, WORDS),
    )
    missed = [row for row in rows if not row.near]
    worst = max(missed, key=lambda row: abs(log(row.times)) if row.times > 0 else 9.0, default=None)
    means = [Line("", worst.meaning)] if worst else [Line("", "Near in all of them.")]
    return [Table("", columns, rows), Table(lines=means)] if rows else []


def _verdict(row: MarkedAnswer) -> str:
    if row.near:
        return "near"
    if row.times == 1.0:
        return "another"
    more = row.times > 1
    return f"{ratio_text(row.times if more else 1 / row.times)} {'more' if more else 'less'}"
