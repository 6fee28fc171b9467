"""What an op launches: every call of it, with everything it calls in turn.

`launches nothing` means no kernel, memcpy or memset at all: the op only changes a view.
"""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.analyze.guess import kinds
from foretrace.analyze.guess.grammar import Slot, list_of
from foretrace.analyze.guess.kinds.counts import TOO_MANY
from foretrace.analyze.guess.kinds.inputs import host_ops
from foretrace.analyze.guess.selection import select
from foretrace.analyze.guess.windows import Scope, Unknown, Window, op_windows, windows_of
from foretrace.analyze.guess.words import PHASES, ParseFailure, Selector, Token, read_selector
from foretrace.base.units import count_text

_ANYTHING = tuple(Selector(kind, kind) for kind in ("kernel", "memcpy", "memset"))


def _each_call(window: Window, query: kinds.Query) -> kinds.Measurement:
    window.need_gpu()
    window.need_whole()
    ops: list[Selector] = query.args["ops"]
    calls = [call for op in ops for call in _calls(window, op)]
    if any(call.lost for call in calls):
        raise Unknown("some launches have no GPU event")
    wanted = (query.what,) if "what" in query.args else _ANYTHING
    launched = [[row for each in wanted for row in select(call, each).sure] for call in calls]
    wrong = [rows for rows in launched if query.compare.of(len(rows), query.number) != "hit"]
    of_ops = Scope("region", " and ".join(op.text for op in ops))
    measured = kinds.together([count_text(len(rows)) for rows in launched], of_ops)
    rows = [row for found in wrong for row in found]
    return kinds.Measurement("miss" if wrong else "hit", measured, rows=rows)


def _calls(window: Window, op: Selector) -> list[Window]:
    if op.text.lower() in PHASES:
        return windows_of(Scope("region", op.text.lower()), window.evidence)
    called = Selector(op.text, "op", name=f"aten::{op.word}")
    op = called if called.name in window.evidence.trace.host.names else op
    events = host_ops(window, op).sure
    if not events:
        raise Unknown(f"no {op.text} in {window.label}")
    return op_windows(window.evidence, op.text, events)


def _op(tokens: Sequence[Token], place: int) -> tuple[Selector, int]:
    """An op, or a pass; `the step launches 5 kernels` is about steps."""
    found, after = read_selector(tokens, place)
    if found.kind == "step":
        raise ParseFailure(place, ["an op"])
    return found, after


KIND = kinds.GuessKind(
    "launches",
    20,
    (
        "[every|each] {ops:several} launches|launch nothing",
        "[every|each] {ops:several} launches|launch [{compare:phrase}] {number:count} "
        "{what:selector}",
    ),
    kinds.per_window(_each_call),
    expected=lambda args: kinds.comparison(args) or "== 0",
    slots={
        "several": Slot("one or more selectors, with commas or `and`", list_of(_op, least=1)),
    },
    reasons=TOO_MANY,
)
