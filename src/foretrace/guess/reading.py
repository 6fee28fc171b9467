"""`Kind`, the declaration that each file of `kinds/` makes, and `Reading`, what measuring one
prediction gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from foretrace.guess.scope import Scope
from foretrace.guess.view import Unknown, View


@dataclass(frozen=True, slots=True)
class Ask:
    """A prediction about to be measured: what its pattern read, where to look, and the same places
    of the other trace.
    """

    args: Mapping[str, Any]
    scope: Scope
    views: list[View]
    others: list[View] | None = None
    no_other: str = "needs a trace to compare with: --against OTHER"

    def need_others(self) -> list[View]:
        if self.others is None:
            raise Unknown(self.no_other)
        if self.others[0].gap:
            raise Unknown(f"in A: {self.others[0].gap}")
        return self.others


@dataclass(frozen=True, slots=True)
class Reading:
    """`rows` (of `trace.gpu`) and `events` are what decided it, in the view that decided it."""

    verdict: str
    measured: str
    why: str = ""
    view: View | None = None
    rows: list[int] = field(default_factory=list)
    events: list[int] = field(default_factory=list)


def comparison(args: Mapping[str, Any]) -> str:
    """`== 5`, `< 300 us`: the comparison that a prediction makes; empty when it makes none."""
    symbol = args["compare"].symbol if "compare" in args else "=="
    amount = next((args[name] for name in ("number", "amount") if name in args), None)
    return "" if amount is None else f"{symbol} {amount.text}"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of prediction.

    `patterns` are its wordings (see `grammar`), `measure` decides one, `examples` are texts with
    their meaning: the manual prints them and a test runs them. The manual's text is the docstring
    of the module. `expected` says what a prediction wants in symbols, for other programs; where it
    says nothing the prediction itself stands.
    """

    name: str
    patterns: tuple[str, ...]
    measure: Callable[[Ask], Reading]
    examples: Mapping[str, str]
    order: int = 50
    expected: Callable[[Mapping[str, Any]], str] = comparison


_WORST = {"miss": 0, "unknown": 1, "hit": 2}


def for_each(ask: Ask, measure: Callable[[View], Reading]) -> Reading:
    """Measure every view: all must hit; one miss is a miss."""
    readings = []
    for view in ask.views:
        try:
            readings.append(replace(measure(view), view=view))
        except Unknown as gap:
            readings.append(Reading("unknown", "", str(gap), view))
    worst = min(readings, key=lambda reading: _WORST[reading.verdict])
    if worst.verdict == "hit" and ask.scope.open_ended and worst.view and worst.view.gap:
        # a call that is missing may be otherwise
        worst = replace(worst, verdict="unknown", why=worst.view.gap)
    where = (
        f" ({worst.view.label})"
        if worst.view and len(ask.views) > 1 and worst.why not in ("", worst.view.gap)
        else ""
    )
    return replace(
        worst,
        measured=together([reading.measured for reading in readings], ask.scope),
        why=worst.why + where,
    )


def together(texts: list[str], scope: Scope) -> str:
    """`5 in each of 3 steps`, or the several answers."""
    if len(texts) == 1 and scope.kind != "trace":
        return texts[0]
    distinct = list(dict.fromkeys(text for text in texts if text))
    if len(distinct) > 1:
        return (
            f"{'; '.join(distinct[:6])}{'; …' if len(distinct) > 6 else ''} over {len(texts)} "
            f"{scope.unit}"
        )
    return (
        f"{distinct[0]} in each of {len(texts)} {scope.unit}"
        if distinct and len(texts) > 1
        else "".join(distinct)
    )


def judge_all(quantifier: str, answers: list[bool | None], unclear: bool) -> str:
    """Every, some or no of several yes, no or not-known; `unclear`: there may be more of them."""
    open_end = unclear or None in answers
    if quantifier == "every":
        if not answers:
            return "unknown"
        return "miss" if False in answers else "unknown" if open_end else "hit"
    yes, no = ("hit", "miss") if quantifier == "some" else ("miss", "hit")
    return yes if True in answers else "unknown" if open_end else no
