"""Marks predictions on a trace: hit, miss, unknown or error, with what was measured."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from statistics import median
from typing import Any

from foretrace.check import quantities as table
from foretrace.check.evidence import Evidence
from foretrace.check.judging import COUNT, SHARE, TRUTH, WORD, Answer, Facts, Judge, Truth, Value
from foretrace.check.language import (
    BYTES,
    FLOPS,
    TIME,
    Node,
    Number,
    Pair,
    Prediction,
    Quantity,
    Reads,
    Scope,
    Selector,
    Unknown,
    Words,
    WrongText,
    parse,
)
from foretrace.check.quantities import QUANTITIES
from foretrace.check.selectors import words as vocabulary_of
from foretrace.check.verdict import Verdict, Verdicts
from foretrace.check.windows import NoSuchPlace, Window, whole, windows_of
from foretrace.trace.opening import opened
from foretrace.trace.trace import Trace

Given = str | tuple[str, str]  # a prediction, and why it is expected
Guesses = str | Iterable[Given]
_OF_COMPILER = ("graph_breaks", "recompiles", "graphs", "compile.time", "separated")
_AFTER = {"step": "predicted.step", "step.time": "predicted.step"}  # what `after(fix)` has
_EXAMPLES = {TIME: "5 us", BYTES: "5 MB", FLOPS: "5 GFLOP", SHARE: "50%", WORD: "bf16"}
_ENGLISH = re.compile(r"[^\W\d][\w'-]*(?:,? [\w'%.-]+){2,}[.!?]?")  # three words, and no sign


def read(
    text: str,
    known: Mapping[str, tuple[str, Reads]] | None = None,
    advise: Callable[[str], str] = lambda _: "",
) -> Prediction:
    """A prediction. `known` has the unit and the arguments of each quantity: those of a trace."""
    units = known or {name: (each.unit, each.reads) for name, each in QUANTITIES.items()}
    reads = {name: each for name, (_, each) in units.items()} | dict.fromkeys(_AFTER, Reads())
    reads |= {name: each for name, (_, each) in units.items()}
    if _ENGLISH.fullmatch(text.strip()):
        raise WrongText(text, 0, "a prediction is an expression, not a sentence", advise(text))
    prediction = parse(text, reads, advise)
    for node in prediction.walk():
        if (
            isinstance(node, Quantity)
            and node.name == "step"
            and not node.after
            and "step" not in units
        ):
            raise WrongText(text, node.at, "`step` is a place", "the quantity is `step.time`")
        if isinstance(node, Pair) and isinstance(node.left, Words):
            word = node.left.text
            raise WrongText(text, node.left.at, f"no quantity `{word}`", advise(word))
    node = prediction.node
    if isinstance(node, Quantity) and units.get(node.name, ("",))[0] == TRUTH:
        return prediction
    if isinstance(node, Words):
        raise WrongText(text, node.at, f"no quantity `{node.text}`", advise(node.text))
    if isinstance(node, Quantity | Number):
        unit = units[node.name][0] if isinstance(node, Quantity) and node.name in units else COUNT
        hint = f"write for example `{text.strip()} == {_EXAMPLES.get(unit, '5')}`"
        raise WrongText(text, len(text), "this compares nothing", hint)
    return prediction


def can_read(text: str, known: Mapping[str, tuple[str, Reads]] | None = None) -> bool:
    """Whether a text is a prediction about a trace, or about what `known` has."""
    try:
        read(text, known)
    except WrongText:
        return False
    return True


def check(
    trace: Trace | str | os.PathLike[str],
    predictions: Guesses,
    against: Trace | str | os.PathLike[str] | None = None,
) -> Verdicts:
    """Mark each prediction on `trace`: hit, miss, unknown or error, with what was measured.

    A trace may be a path or the name of a recording. `against` is `a` in the predictions, and the
    trace itself is `b`. A prediction may come with its reason: (text, reason).
    """
    evidence = Evidence(opened(trace))
    marker = Marker(evidence, Evidence(opened(against)) if against is not None else None)
    return mark_all(predictions, marker, gap=evidence.trace.ledger.gap)


def mark_all(
    predictions: Guesses,
    judge: Judge[Any],
    known: Mapping[str, tuple[str, Reads]] | None = None,
    gap: str = "",
) -> Verdicts:
    """The verdict on each; an incomplete recording (`gap`) may lack what decides."""
    each = [predictions] if isinstance(predictions, str) else predictions
    return Verdicts(mark(given, judge, known, gap) for given in each)


def mark(
    given: Given,
    judge: Judge[Any],
    known: Mapping[str, tuple[str, Reads]] | None = None,
    gap: str = "",
) -> Verdict:
    """The verdict on one prediction."""
    text, reason = (given, "") if isinstance(given, str) else given
    try:
        return replace(judge.verdict(read(text, known, judge.advise)), reason=reason)
    except WrongText as wrong:
        if wrong.text != text:  # of a selector inside it
            wrong = WrongText(
                text, max(text.find(wrong.text), 0) + wrong.at, wrong.problem, wrong.hint
            )
        return Verdict(text, "error", why=str(wrong), slice=wrong.marked, reason=reason)
    except NoSuchPlace as wrong:
        return Verdict(text, "error", why=str(wrong), reason=reason)
    except Unknown as missing:
        why = f"{gap}; {missing}" if gap and gap not in str(missing) else str(missing)
        return Verdict(text, "unknown", why=why, reason=reason)


class Marker(Judge[Window]):
    """Works predictions out on a trace, and on the one that they call `a`."""

    def __init__(self, evidence: Evidence, other: Evidence | None = None) -> None:
        self.evidence, self.other = evidence, other
        self.scope = Scope()
        self.windows: list[Window] = []
        self._typical: dict[tuple[Scope, str, str], Answer] = {}

    def places(self, scope: Scope) -> list[Window]:
        """The windows of a scope."""
        self.scope, self.windows = scope, windows_of(scope, self.evidence)
        return self.windows

    def label(self, place: Window) -> str:
        """`ProfilerStep#2`, `call 3 of mlp_fwd`."""
        return place.label

    def is_once(self, node: Quantity) -> bool:
        """Whether a quantity is of the whole recording."""
        if node.total or node.after:
            return True
        return QUANTITIES[node.name].once and not self.scope.kind

    def proof(self, place: Window, answers: Sequence[Answer]) -> tuple[list[str], tuple[int, ...]]:
        """GPU operations and host events that a miss was decided on."""
        rows = list(dict.fromkeys(row for each in answers for row in each.rows))
        host = list(dict.fromkeys(event for each in answers for event in each.events))
        if not rows and not host:
            return [], ()
        ids = [int(self.evidence.trace.gpu.id[row]) for row in rows]
        return [f"{place.label}:", *place.lines(rows, host)], (*ids, *host)

    def words(self, node: Node) -> Sequence[str]:
        """Every word that a quantity can be; none where any word can be."""
        if isinstance(node, Quantity) and node.name == "some":
            return self.words(node.of[0])
        return QUANTITIES[node.name].words if isinstance(node, Quantity) and not node.after else ()

    def advise(self, words: str) -> str:
        """Expressions that may be meant, with their present values."""
        known = vocabulary_of(self.evidence)
        of = list(dict.fromkeys(word for word in re.findall(r"[\w:*]+", words) if word in known))
        named = [Selector(0, word) for word in [*of, "gemm", "mul"][: max(len(of), 2)]]
        near = [self._now(name, named) for name in table.nearest_quantities(words)]
        if len(of) == 1 and of[0] == words:  # `gemm == 3`
            several = [name for name in (f"{words}s", f"{words}es") if name in QUANTITIES]
            near = [self._now(name, named) for name in (*several, "count", "time", "share")]
        return f"did you mean {', '.join(near)}?" if near else ""

    def _now(self, name: str, named: Sequence[Selector]) -> str:
        """A quantity and what it is, as far as it is of these."""
        reads = QUANTITIES[name].reads
        of: tuple[Node, ...] = tuple(named[: min(reads.most, 2) if reads.least else 0])
        if reads.expression:
            of = (Quantity(0, "time", tuple(named[:1])),)
        node, judge = Quantity(0, name, of), Marker(self.evidence, self.other)
        with suppress(Unknown, NoSuchPlace, WrongText):
            answer = judge.quantity(node, judge.places(Scope())[0])
            text = answer.text
            if isinstance(answer, Truth):
                text = {True: "true", False: "false", None: "unknown"}[answer.holds]
            return f"`{node}` ({text})"
        return f"`{node}`"

    def quantity(self, node: Quantity, place: Window) -> Answer:
        """What a quantity is in one window, or in the typical one."""
        answer = self._answer(node, place)
        if node.side == "a":  # its rows are not those of this trace
            return replace(answer, rows=(), events=())
        return answer

    def _answer(self, node: Quantity, place: Window) -> Answer:
        name = _AFTER.get(node.name, node.name) if node.after else node.name
        known = QUANTITIES[name]
        if node.side and self.other is None and node.side == "a":
            raise Unknown("`a` is another recording: name it with --against")
        window = self._window(node, place)
        if node.after:
            return known.of(window, Selector(node.at, node.after))
        if known.reads.expression:
            return self._aggregate(known, node, window)
        of = [each for each in node.of if isinstance(each, Selector)]
        if name == "same":
            other = self._other_window(window)
            if other is None:
                raise Unknown("`a` is another recording: name it with --against")
            return known.of(window, *of, other=other)
        if not known.typical or node.total or self.scope.kind == "step":
            return known.of(window, *of)
        key = (self.scope, node.side, str(node))
        if key not in self._typical:
            self._typical[key] = self._median(known, of, node)
        return self._typical[key]

    def _window(self, node: Quantity, window: Window) -> Window:
        if node.side == "a" and self.other is not None:
            window = self._other_window(window) or window
        return whole(window.evidence) if self.is_once(node) else window

    def _other_window(self, window: Window) -> Window | None:
        """The same place of `a`: the window of the same number, else the first."""
        if self.other is None:
            return None
        others = windows_of(self.scope, self.other)
        at = next((at for at, each in enumerate(self.windows) if each is window), 0)
        return others[min(at, len(others) - 1)]

    def _median(self, known: table.Quantity, of: Sequence[Selector], node: Quantity) -> Answer:
        """The median over the windows that launched anything; parts of a step are those of the step
        with the median GPU time, so that they add up to it.
        """
        evidence = self.other if node.side == "a" and self.other is not None else self.evidence
        windows = (
            windows_of(self.scope, evidence) if evidence is not self.evidence else self.windows
        )
        windows = (
            middle(windows)
            if of or known.name == "gpu.time" or known.unit == WORD
            else [w for w in windows if len(w.rows)] or windows
        )
        windows[0].need_all()  # of more steps the typical one may be another
        answers = [known.of(window, *of) for window in windows]
        values = [each for each in answers if isinstance(each, Value)]
        if len(values) < len(answers):
            return answers[0]
        first = values[0]
        low, high = median(each.low for each in values), median(each.high for each in values)
        if known.name == "share":  # of two steps in the middle, together
            times = [float(window.shared.sum()) or 1.0 for window in windows]
            low = sum(each.low * time for each, time in zip(values, times, strict=True))
            low = high = low / sum(times)
        return replace(first, low=low, high=high)

    def _aggregate(self, known: table.Quantity, node: Quantity, window: Window) -> Answer:
        inner = node.of[0]
        if node.name == "some" and isinstance(inner, Quantity):
            facts = self.quantity(inner, window)
            if isinstance(facts, Facts):
                return known.of(window, facts)
        if not isinstance(inner, Quantity) or inner.name not in table.OF_LAUNCHES or not inner.of:
            raise WrongText(
                self.text,
                inner.at,
                f"`{node.name}` is of every launch",
                f"as in `{node.name}(time(gemm))`",
            )
        selector = inner.of[0]
        assert isinstance(selector, Selector)
        unit = QUANTITIES[inner.name].unit
        times_of = table.calls_of if inner.name == "host.time" else table.launches_of
        values = times_of(window, selector, unit)
        if node.name == "some":
            return known.of(window, Facts(tuple(values), measures=unit))
        return known.of(window, values, unit)


def needs_records(text: str) -> bool:
    """Whether the compiler's records decide a prediction."""
    nodes = read(text).walk() if can_read(text) else ()
    return any(
        (isinstance(node, Quantity) and node.name in _OF_COMPILER)
        or (isinstance(node, Selector) and ".py" in node.text)
        for node in nodes
    )


def middle(windows: list[Window]) -> list[Window]:
    """The window with the median GPU time, or the two in the middle; on a CPU the median time."""
    working = [window for window in windows if len(window.rows)]
    if working:
        working.sort(key=lambda window: window.evidence.trace.spans.busy(window.span))
    elif windows[0].evidence.runs_on_cpu:
        working = sorted(windows, key=lambda window: window.length_ns)
    return working[(len(working) - 1) // 2 : len(working) // 2 + 1] or windows
