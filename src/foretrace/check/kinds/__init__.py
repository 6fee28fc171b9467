"""Kinds of prediction: a function below `@prediction` adds one, and nothing else changes.

The function turns a `Query` into a `Measurement`, and its docstring is the text of the manual. Most
are `per_window` functions, which judge one window.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, wraps
from itertools import chain
from typing import Any

from foretrace.base import plugins
from foretrace.check.evidence import Evidence, GpuOperation
from foretrace.check.grammar import Pattern, Slot, items
from foretrace.check.selection import Measure, Selection
from foretrace.check.windows import Scope, Unknown, Window, some_of
from foretrace.check.words import EQUALS, Amount, Compare, Selector, tables
from foretrace.trace.allocator.view import MemoryView

NONE = Amount("0", 0)
NO_OTHER = "needs a trace to compare with: --against OTHER"
_WORST = ("miss", "unknown", "hit")


@dataclass(frozen=True, slots=True)
class Query:
    """A prediction to measure: what its pattern read, and the windows in this trace and in A."""

    args: Mapping[str, Any]
    scope: Scope
    windows: list[Window]
    others: list[Window] | None = None
    no_other: str = NO_OTHER
    says_gpu: bool = True
    says_gpu_time: bool = False
    says_total: bool = False
    says_step: bool = False

    @property
    def on_cpu(self) -> bool:
        """Whether CPU time answers: no GPU ran, and the prediction does not speak of one."""
        return self.windows[0].evidence.runs_on_cpu and not self.says_gpu

    @property
    def what(self) -> Selector:
        """What the prediction speaks of."""
        found: Selector = self.args["what"]
        return found

    @property
    def compare(self) -> Compare:
        """The comparison that the prediction makes; without one, that both are equal."""
        found: Compare = self.args.get("compare", EQUALS)
        return found

    @property
    def number(self) -> Amount:
        """How many the prediction wants; none where it says `no`."""
        found: Amount = self.args.get("number", NONE)
        return found

    def judge(self, value: float) -> str:
        """The verdict on a measured value."""
        return self.compare.of(value, self.args["amount"])

    def nearly(self, value: float) -> str:
        """The same; of 348 us it is unknown whether `takes 350 us` means it."""
        found = self.judge(value)
        near = found == "miss" and "takes" in self.args and "compare" not in self.args
        return "unknown" if near and Compare("~").of(value, self.args["amount"]) == "hit" else found

    def hit_if(self, right: bool) -> str:
        """The verdict on what the prediction says, or says `not` of."""
        return "hit" if right is ("not" not in self.args) else "miss"

    def need_gpu(self) -> None:
        """For what only the GPU events of complete windows decide."""
        for window in self.windows:
            window.need_gpu()
            window.need_whole()

    def need_others(self) -> list[Window]:
        """The windows of the other trace; `Unknown` without a complete one."""
        if self.others is None:
            raise Unknown(self.no_other)
        if self.others[0].gap:
            raise Unknown(f"in A: {self.others[0].gap}")
        return self.others

    @property
    def median_of(self) -> str:
        """` (median of 3 steps)`, or nothing for one window."""
        several = len(self.windows) > 1
        return f" (median of {len(self.windows)} {self.scope.unit})" if several else ""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The verdict on a prediction and what was measured.

    `rows` (of `trace.gpu`) and `events` decided it, in `window`; `lines` are evidence from
    elsewhere, such as the compiler's records.
    """

    verdict: str
    measured: str
    why: str = ""
    window: Window | None = None
    rows: list[int] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    lines: tuple[str, ...] = ()


MeasureFunction = Callable[[Any], Measurement]  # takes a `Query`; of a job, a `JobQuery`


def comparison(args: Mapping[str, Any]) -> str:
    """`== 5`, `< 300 us`: the comparison that a prediction makes; empty when it makes none."""
    compare = args.get("compare", EQUALS)
    # a pattern can also contain these names as plain words
    names = ("number", "amount", "share", "time")
    found = [value for name in names if isinstance(value := args.get(name), Amount)]
    return f"{compare.symbol} {found[0].text}" if found else ""


@dataclass(frozen=True, slots=True)
class Miss:
    """A prediction that missed: its kind, its query, what was measured."""

    kind: str
    query: Query
    found: Measurement

    @property
    def evidence(self) -> Evidence:
        """The evidence of the trace that missed."""
        return self.query.windows[0].evidence

    @property
    def operations(self) -> list[GpuOperation]:
        """The GPU operations that decided it, each distinct one once."""
        window = self.found.window
        found = [window.evidence.operation(row) for row in self.found.rows] if window else []
        return list({id(operation): operation for operation in found}.values())

    def has_family(self, word: str, *, anywhere: bool = False) -> bool:
        """Whether one of the operations (of the whole trace: `anywhere`) is of such a family."""
        found = self.evidence.operations if anywhere else self.operations
        return any(word in operation.ident.family for operation in found)

    @property
    def selector(self) -> Selector | None:
        """What was counted or measured."""
        left = self.query.args.get("left")
        found = self.query.args.get("what", left.selector if isinstance(left, Measure) else None)
        return found if isinstance(found, Selector) else None

    @property
    def compare(self) -> str:
        """The symbol of the comparison; empty without one."""
        compare = self.query.args.get("compare")
        return compare.symbol if isinstance(compare, Compare) else ""

    @property
    def wants_some(self) -> bool:
        """Whether the prediction was that something exists, not that nothing does."""
        return self.query.args.get("quantifier") in ("every", "some")

    def excess(self, kind: str) -> float:
        """How many more of that kind there are than predicted; 0 for another kind."""
        if self.selector is None or self.selector.kind != kind:
            return 0
        wanted = self.query.args.get("number")
        seen = len(self.found.rows) + len(self.found.events)
        return seen - (wanted.value if isinstance(wanted, Amount) else 0)

    def names(self, word: str) -> bool:
        """Whether a name in the prediction (of a call, a kernel, an op) begins with `word`."""
        values = self.query.args.values()
        texts = [text for value in values for text in (value, getattr(value, "name", ""))]
        return any(isinstance(text, str) and text.startswith(word) for text in texts)


@dataclass(frozen=True, slots=True)
class Reason:
    """`explains` says whether this is the likely reason of a miss.

    `text` is the reason, `source` where it was seen, `example` a prediction that misses for it.
    """

    name: str
    explains: Callable[[Miss], bool]
    example: str
    text: str
    source: str


def known(explains: Callable[[Miss], bool]) -> Reason:
    """Declare a function as the test of a reason, whose words are in `language.toml`."""
    name = explains.__name__.strip("_")
    return Reason(name, explains, **tables()["reasons"][name])


@dataclass(frozen=True, slots=True)
class GuessKind:
    """One kind of prediction.

    Kinds are tried by `order`. `patterns` are the wordings (see `grammar`), `measure` decides one.
    `expected` says what a prediction wants in symbols, or nothing. `records`: it is decided by the
    compiler's records. `slots` are those that its patterns alone have. `reasons` are
    known reasons for a miss. `held` decides it on a snapshot of the allocator.
    """

    name: str
    order: int
    patterns: tuple[str, ...]
    measure: MeasureFunction
    expected: Callable[[Mapping[str, Any]], str] = comparison
    records: bool = False
    slots: Mapping[str, Slot] = field(default_factory=dict)
    reasons: tuple[Reason, ...] = ()
    held: Callable[[Query, MemoryView], Measurement] | None = None


def prediction(
    name: str, order: int, *patterns: str, **more: Any
) -> Callable[[MeasureFunction], GuessKind]:
    """Declare a function as the measure of a kind; `more` are other fields of `GuessKind`."""
    return lambda measure: GuessKind(name, order, patterns, measure, **more)


@cache
def every() -> tuple[GuessKind, ...]:
    """Every kind of prediction, in the order in which their patterns are tried."""
    own = (vars(module).values() for module in plugins.modules(sys.modules[__name__]))
    return in_order(chain(*own, plugins.entries(GuessKind, "foretrace.guesses")))


def in_order(things: Iterable[object]) -> tuple[GuessKind, ...]:
    """The kinds among some things, each once, in the order in which their patterns are tried."""
    found = {id(thing): thing for thing in things if isinstance(thing, GuessKind)}
    return tuple(sorted(found.values(), key=lambda kind: (kind.order, kind.name)))


Patterns = tuple[tuple[GuessKind, Pattern], ...]


def patterns_of(found: Iterable[GuessKind]) -> Patterns:
    """Every pattern with its kind."""
    return tuple((kind, items(text, kind.slots)) for kind in found for text in kind.patterns)


@cache
def patterns() -> Patterns:
    """Every pattern with its kind, in the order in which they are tried."""
    return patterns_of(every())


def per_window(judge: Callable[[Window, Query], Measurement]) -> MeasureFunction:
    """Judge every window: all must hit; one miss is a miss."""

    @wraps(judge)
    def measure(query: Query) -> Measurement:
        found = []
        for window in query.windows:
            try:
                found.append(replace(judge(window, query), window=window))
            except Unknown as missing:
                found.append(Measurement("unknown", "", str(missing), window))
        return _worst(query, found)

    return measure


def _worst(query: Query, found: list[Measurement]) -> Measurement:
    """The worst of several, with what was measured in all of them."""
    worst = min(found, key=lambda one: _WORST.index(one.verdict))
    window = worst.window or query.windows[0]
    if worst.verdict == "hit" and query.scope.open_ended and window.gap:
        # a call that is missing may differ
        worst = replace(worst, verdict="unknown", why=window.gap)
    same_everywhere = all(one.why == worst.why for one in found)
    where = "" if same_everywhere or worst.why in ("", window.gap) else f" ({window.label})"
    measured = together([one.measured for one in found], query.scope)
    return replace(worst, measured=measured, why=worst.why + where)


def together(texts: list[str], scope: Scope) -> str:
    """`5 in each of 3 steps`, or the different answers."""
    if len(texts) == 1 and scope.kind != "trace":
        return texts[0]
    distinct = list(dict.fromkeys(text for text in texts if text))
    if len(distinct) > 1:
        more = "; …" if len(distinct) > 6 else ""
        return f"{'; '.join(distinct[:6])}{more} over {len(texts)} {scope.unit}"
    each = f" in each of {len(texts)} {scope.unit}" if distinct and len(texts) > 1 else ""
    return "".join(distinct) + each


def judge_all(quantifier: str, answers: list[bool | None], unclear: bool) -> str:
    """The verdict on every, some or no of several answers; `unclear`: there may be more of them."""
    open_end = unclear or None in answers
    if quantifier == "every":
        if not answers:
            return "unknown"
        return "miss" if False in answers else "unknown" if open_end else "hit"
    yes, no = ("hit", "miss") if quantifier == "some" else ("miss", "hit")
    return yes if True in answers else "unknown" if open_end else no


def from_selection(
    found: Selection, verdict: str, measured: str, why: str = "", items: list[int] | None = None
) -> Measurement:
    """A measurement that these items of a selection decide, else its certain matches."""
    items = found.sure if items is None else items
    rows, events = (items, []) if found.on_gpu else ([], items)
    return Measurement(verdict, measured, why, rows=rows, events=events)


def tally(texts: list[str]) -> str:
    """`2 x layout tn, 1 x layout nn`."""
    return some_of([f"{count} x {text}" for text, count in Counter(texts).most_common()], 4)
