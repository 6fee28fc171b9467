"""Works an expression out, whatever it is about: a trace, a job, the results of `try`.

A number may lie between two ends, where a trace has lost launches; unknown is what both ends do not
agree on. `not`, `and` and `or` know three values. A `Judge` is told what a quantity is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from foretrace.base.units import bytes_text, count_text, flops_text, percent_text, plural, time_text
from foretrace.check.language import (
    BYTE_RATE,
    BYTES,
    FLOP_RATE,
    FLOPS,
    PLAIN,
    TIME,
    Listed,
    Node,
    Number,
    Pair,
    Prediction,
    Quantity,
    Scope,
    Signed,
    Unknown,
    Words,
    WrongText,
    glob,
    nearest,
)
from foretrace.check.verdict import Verdict

ABOUT = 0.1  # of `~` without a tolerance
DTYPES = {
    "bf16": "bf16",
    "bfloat16": "bf16",
    "fp16": "f16",
    "f16": "f16",
    "half": "f16",
    "fp32": "f32",
    "f32": "f32",
    "float32": "f32",
    "tf32": "tf32",
    "fp64": "f64",
    "f64": "f64",
    "fp8": "fp8",
    "e4m3": "e4m3",
    "e5m2": "e5m2",
    "int8": "i8",
    "i8": "i8",
}
_WORDS_MEANT = {"cpu": "host", "gpu": "compute", "wait": "sync", "io": "copy"}
Place = TypeVar("Place")


COUNT, SHARE, WORD, TRUTH = "count", "share", "word", "truth"


@dataclass(frozen=True, slots=True)
class Value:
    """A number between `low` and `high`, what it measures, and the events that show it."""

    low: float
    high: float
    measures: str = PLAIN
    shown_as: str = COUNT
    rows: tuple[int, ...] = ()
    events: tuple[int, ...] = ()
    why: str = ""  # it is not certain
    note: str = ""  # behind the number: where, of what
    lines: tuple[str, ...] = ()  # what shows it, where no events do

    @property
    def text(self) -> str:
        """For people."""
        number = SHOWN[self.shown_as](self.low)
        more = "" if self.low == self.high else " or more" if self.high == math.inf else ""
        if not more and self.low != self.high:
            more = f" to {SHOWN[self.shown_as](self.high)}"
        return f"{number}{more}{self.note}"


@dataclass(frozen=True, slots=True)
class Facts:
    """What each of several kernels states; None where the trace does not say.

    A comparison must hold for all of them, or with `some` for one.
    """

    values: tuple[Any, ...]
    rows: tuple[int, ...] = ()
    events: tuple[int, ...] = ()
    lines: tuple[str, ...] = ()
    measures: str = WORD  # of numbers: what they measure
    some: bool = False

    @property
    def text(self) -> str:
        """Each value, and of how many."""
        shown = fact_text if self.measures == WORD else SHOWN[self.measures]
        counts = Counter(map(shown, self.values))
        if len(self.values) == 1:
            return next(iter(counts))
        return ", ".join(f"{value} x {count}" for value, count in counts.most_common(4))


@dataclass(frozen=True, slots=True)
class Truth:
    """Whether something holds: True, False, or None with the reason."""

    holds: bool | None
    text: str = ""
    why: str = ""
    rows: tuple[int, ...] = ()
    events: tuple[int, ...] = ()
    lines: tuple[str, ...] = ()


Answer = Value | Facts | Truth
ABSENT = "none"  # a kernel has no such thing


def fact_text(value: Any) -> str:
    """A stated value, for people."""
    if value is None:
        return "not stated"
    if isinstance(value, list | tuple):
        return "x".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


SHOWN: dict[str, Callable[[Any], str]] = {
    COUNT: count_text,
    SHARE: percent_text,
    TIME: time_text,
    BYTES: bytes_text,
    FLOPS: flops_text,
    BYTE_RATE: lambda value: f"{bytes_text(value)}/s",
    FLOP_RATE: lambda value: f"{flops_text(value)}/s",
    "ratio": lambda value: f"{value:.4g}x",
}
SIZES = {TIME, BYTES, FLOPS, BYTE_RATE, FLOP_RATE}


@dataclass(frozen=True, slots=True)
class Judged:
    """An expression in one window: whether it holds, and the answers that it was decided on."""

    holds: bool | None
    why: str = ""
    answers: tuple[Answer, ...] = ()


class Judge(Generic[Place]):
    """Works predictions out in every place of a scope."""

    text = ""

    def places(self, scope: Scope) -> list[Place]:
        """Where a prediction must hold: steps, calls, ranks."""
        raise NotImplementedError

    def quantity(self, node: Quantity, place: Place) -> Answer:
        """What a quantity is in one place."""
        raise NotImplementedError

    def advise(self, words: str) -> str:
        """What may be meant by words that are no quantity."""
        raise NotImplementedError

    def label(self, place: Place) -> str:
        """What a place is called."""
        raise NotImplementedError

    def proof(self, place: Place, answers: Sequence[Answer]) -> tuple[list[str], tuple[int, ...]]:
        """The lines that decide a miss, and the ids of their events."""
        raise NotImplementedError

    def is_once(self, node: Quantity) -> bool:
        """Whether a quantity is the same in every place."""
        raise NotImplementedError

    def words(self, node: Node) -> Sequence[str]:
        """Every word that a quantity can be; none where any word can be."""
        return ()

    def verdict(self, prediction: Prediction) -> Verdict:
        """The verdict on a prediction; a miss is shown in the first place that decides it."""
        self.text = prediction.text
        places = self.places(prediction.scope)
        named = [node for node in prediction.walk() if isinstance(node, Quantity)]
        if all(map(self.is_once, named)):
            places = places[:1]
        judged = [self.judge(prediction.node, place) for place in places]
        holds = [each.holds for each in judged]
        state = "miss" if False in holds else "unknown" if None in holds else "hit"
        worst = False if state == "miss" else None
        at = holds.index(worst) if worst in holds and state != "hit" else 0
        shown = [
            ", ".join(dict.fromkeys(filter(None, (one.text for one in each.answers))))
            for each in judged
        ]
        measured = shown[at]
        if len({*shown}) > 1:
            wrong = sum(value is not True for value in holds)
            measured += f" in {self.label(places[at])}"
            measured += f", {wrong} of {plural(len(shown), 'place')}" if wrong else ""
        lines: list[str] = []
        events: tuple[int, ...] = ()
        if state == "miss":
            lines, events = self.proof(places[at], judged[at].answers)
        why = judged[at].why if state != "hit" else ""
        wanted = str(prediction.node)
        return Verdict(prediction.text, state, measured, wanted, why, tuple(lines), events=events)

    def judge(self, node: Node, place: Place) -> Judged:
        """Whether an expression holds in a window."""
        if isinstance(node, Signed) and node.sign == "not":
            inner = self.judge(node.of, place)
            return replace(inner, holds=None if inner.holds is None else not inner.holds)
        if isinstance(node, Pair) and node.sign in ("and", "or"):
            return self._both(node, place)
        try:
            if isinstance(node, Pair):
                return self._compared(node, place)
            answer = self.value(node, place)
        except Unknown as missing:
            return Judged(None, str(missing))
        if not isinstance(answer, Truth):
            raise WrongText(
                self.text, node.at, f"`{node}` is no claim", "compare it with something"
            )
        return Judged(answer.holds, answer.why, (answer,))

    def _both(self, node: Pair, place: Place) -> Judged:
        left, right = self.judge(node.left, place), self.judge(node.right, place)
        decides = node.sign == "or"  # one that holds decides an `or`, one that does not an `and`
        sides = [side for side in (left, right) if side.holds is decides]
        if sides:
            return sides[0]
        open_side = next((side for side in (left, right) if side.holds is None), None)
        answers = left.answers + right.answers
        return (
            replace(open_side, answers=answers) if open_side else Judged(not decides, "", answers)
        )

    def _compared(self, node: Pair, place: Place) -> Judged:
        if node.sign not in _COMPARES and node.sign not in ("~", "in"):
            raise WrongText(
                self.text, node.at, f"`{node}` is no claim", "compare it with something"
            )
        left = self.value(node.left, place)
        if isinstance(left, Truth):
            raise WrongText(
                self.text, node.at, f"`{node.left}` is true or false", "leave out the comparison"
            )
        if isinstance(left, Facts):
            return self._of_facts(node, left, place)
        if isinstance(node.right, Listed):
            return self._listed(node, node.right, place)
        right = self.value(node.right, place)
        if not isinstance(right, Value):
            raise WrongText(
                self.text, node.right.at, f"expected a number instead of `{node.right}`"
            )
        right = self._same_measure(node, left, right)
        holds = _hold(node, left, right)
        why = (left.why or right.why) if holds is None else ""
        return Judged(holds, why, (left,) if isinstance(node.right, Number) else (left, right))

    def _listed(self, node: Pair, wanted: Listed, place: Place) -> Judged:
        """Whether a number is one of several."""
        judged = [self._compared(replace(node, sign="==", right=each), place) for each in wanted.of]
        holds = [each.holds for each in judged]
        return next(
            (each for each in judged if each.holds),
            judged[holds.index(None) if None in holds else 0],
        )

    def _known_word(self, node: Pair, left: Facts, wanted: Sequence[Node]) -> None:
        """A word that no kernel can state is a slip, not a miss."""
        known = self.words(node.left)
        there = {fact_text(value) for value in left.values}
        for each in wanted if known else ():
            text = each.text if isinstance(each, Words) else str(each)
            if text not in known and text not in there and "*" not in text:
                near = nearest(text, list(dict.fromkeys([*known, *there]))) or known
                near = [_WORDS_MEANT[text]] if _WORDS_MEANT.get(text) in known else near
                hint = f"did you mean {', '.join(near)}?"
                raise WrongText(self.text, each.at, f"`{node.left}` is never `{text}`", hint)

    def _of_facts(self, node: Pair, left: Facts, place: Place) -> Judged:
        """Whether what every kernel states is the wanted value, or one of several."""
        if left.measures != WORD or node.sign in ("<", "<=", ">", ">=", "~"):
            stated = [value for value in left.values if value is not None]
            if stated and not any(isinstance(value, int | float) for value in stated):
                hint = "compare it with `==`, `!=` or `in`"
                raise WrongText(self.text, node.at, f"`{node.left}` is no number", hint)
            right = self._plain(node.right, place)
            if left.measures != WORD:
                right = self._same_measure(node, Value(0, 0, left.measures), right)
            tests = [
                _hold(node, Value(value, value), right) if isinstance(value, int | float) else None
                for value in left.values
            ]
            return _each(left, tests)
        if isinstance(node.right, Quantity):
            other = self.value(node.right, place)
            if not isinstance(other, Facts):
                raise WrongText(self.text, node.right.at, f"`{node.right}` is no word")
            tests = [
                None if None in (value, *other.values) else {value} == {*other.values}
                for value in left.values
            ]
        else:
            wanted = node.right.of if isinstance(node.right, Listed) else (node.right,)
            for each in wanted:
                if not isinstance(each, Words | Number):
                    raise WrongText(self.text, each.at, f"expected a word instead of `{each}`")
            self._known_word(node, left, wanted)
            tests = [
                None if value is None else any(_is(value, each) for each in wanted)
                for value in left.values
            ]
        if node.sign == "!=":
            tests = [None if test is None else not test for test in tests]
        return _each(left, tests)

    def _same_measure(self, node: Pair, left: Value, right: Value) -> Value:
        if left.measures == right.measures:
            return right
        named = {"": "a number without a unit"}
        one, other = (
            named.get(side.measures, f"a size in {side.measures}") for side in (left, right)
        )
        unit = {TIME: "us", "bytes": "MB", "flops": "GFLOP"}.get(left.measures, "")
        hint = (
            f"write `{node.right} {unit}`"
            if unit and not right.measures and isinstance(node.right, Number)
            else ""
        )
        raise WrongText(
            self.text, node.right.at, f"`{node.left}` is {one}, `{node.right}` {other}", hint
        )

    def value(self, node: Node, place: Place) -> Answer:
        """What an expression is in a window."""
        if isinstance(node, Number):
            shown = node.measures or (SHARE if "%" in node.text else COUNT)
            return Value(node.value, node.value, node.measures, shown)
        if isinstance(node, Quantity):
            return self.quantity(node, place)
        if isinstance(node, Signed) and node.sign == "-":
            of = self._plain(node.of, place)
            return replace(of, low=-of.high, high=-of.low)
        if isinstance(node, Pair) and node.sign in "+-*/":
            return self._arithmetic(node, place)
        if isinstance(node, Words):
            hint = self.advise(node.text)
            raise WrongText(self.text, node.at, f"no quantity `{node.text}`", hint)
        raise WrongText(self.text, node.at, f"`{node}` cannot stand here")

    def _plain(self, node: Node, place: Place) -> Value:
        answer = self.value(node, place)
        if not isinstance(answer, Value):
            raise WrongText(self.text, node.at, f"`{node}` is no number")
        return answer

    def _arithmetic(self, node: Pair, place: Place) -> Value:
        left, right = self._plain(node.left, place), self._plain(node.right, place)
        rows, events = left.rows + right.rows, left.events + right.events
        why = left.why or right.why
        if node.sign in "+-":
            right = self._same_measure(node, left, right)
            ends = (left.low + right.low, left.high + right.high)
            if node.sign == "-":
                ends = (left.low - right.high, left.high - right.low)
            return Value(*ends, left.measures, left.shown_as, rows, events, why)
        if node.sign == "*":
            if left.measures and right.measures:
                raise WrongText(self.text, node.at, "one of two factors must be a plain number")
            sized = max(left, right, key=lambda side: (bool(side.measures), side.shown_as != COUNT))
            products = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
            return Value(
                min(products), max(products), sized.measures, sized.shown_as, rows, events, why
            )
        measures = _QUOTIENTS.get((left.measures, right.measures))
        if left.measures == right.measures:
            measures = PLAIN
        if measures is None:
            raise WrongText(
                self.text, node.at, f"a size in {left.measures} over one in {right.measures}"
            )
        if right.low <= 0 <= right.high:
            raise Unknown(f"`{node.right}` is 0: nothing can be divided by it")
        scale = 1e9 if measures.endswith("/s") else 1.0
        quotients = [a / b * scale for a in (left.low, left.high) for b in (right.low, right.high)]
        shown = measures or ("ratio" if left.measures or right.shown_as != COUNT else left.shown_as)
        return Value(min(quotients), max(quotients), measures, shown, rows, events, why)


_COMPARES: dict[str, Callable[[float, float], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_QUOTIENTS = {("bytes", TIME): "bytes/s", ("flops", TIME): "flops/s", ("flops", "bytes"): PLAIN}
_QUOTIENTS |= {
    (measures, PLAIN): measures for measures in ("bytes", "flops", TIME, "bytes/s", "flops/s")
}


def _hold(node: Pair, left: Value, right: Value) -> bool | None:
    """Whether a comparison holds between the ends of both sides; None where it depends on them."""
    half = node.right.half if isinstance(node.right, Number) else 0.0
    if node.sign == "~":
        given = node.within
        half = abs(right.high) * ABOUT
        if given is not None:
            half = given.value if given.measures else abs(right.high) * given.value
            half = given.value if not given.measures and "%" not in given.text else half
    if node.sign in ("==", "!=", "~"):
        half *= 1 + 1e-9
        apart = left.low > right.high + half or left.high < right.low - half
        same = left.high - right.low <= half and right.high - left.low <= half
        same = same and max(left.high, right.high) < math.inf
        equal = False if apart else True if same else None
        return equal if node.sign != "!=" or equal is None else not equal
    compare = _COMPARES[node.sign]
    ends = {compare(a, b) for a in (left.low, left.high) for b in (right.low, right.high)}
    return ends.pop() if len(ends) == 1 else None


def _each(facts: Facts, tests: Sequence[bool | None]) -> Judged:
    """Whether all of them pass, or some."""
    decides = facts.some  # one that passes decides `some`, one that does not all the others
    holds = decides if decides in tests else None if None in tests else not decides
    unstated = tests.count(None)
    why = f"the trace does not state it for {unstated} of {len(tests)}" if holds is None else ""
    wrong = tuple(row for row, test in zip(facts.rows, tests, strict=False) if test is False)
    return Judged(holds, why, (replace(facts, rows=wrong or facts.rows),))


def _is(value: object, wanted: Node) -> bool:
    """Whether a stated value is the wanted one; sizes and names may be cut short."""
    text = wanted.text if isinstance(wanted, Words | Number) else str(wanted)
    if isinstance(value, bool):
        return value is (text.lower() in ("yes", "true", "on", "1"))
    if isinstance(value, int | float):
        return isinstance(wanted, Number) and float(value) == wanted.value
    if isinstance(value, list | tuple):
        parts = text.split("x")
        shown = [str(each).lower() for each in value]
        return shown[: len(parts)] == [part.lower() for part in parts] or text.lower() in shown
    said, low = str(value).lower(), text.lower()
    if "," in text or ("x" in text and said[:1].isdigit()):
        return said == low or said.startswith(f"{low}, ")
    same = said in (low, DTYPES.get(low, low)) or glob(low, said)
    return same or (low in said.replace("-", " ").split())
