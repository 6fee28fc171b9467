"""What an op puts on the GPU: every call of it, with everything it calls in turn.

`launches nothing` means no kernel, memcpy or memset at all: the mark of an op that only changes a
view.
"""

from __future__ import annotations

from foretrace.guess.amounts import Amount, Compare
from foretrace.guess.reading import Ask, Kind, Reading, comparison, for_each, together
from foretrace.guess.scope import Scope, op_views
from foretrace.guess.select import find
from foretrace.guess.things import Thing
from foretrace.guess.view import Unknown, View
from foretrace.units import count_text

_ANYTHING = tuple(Thing(kind, kind) for kind in ("kernel", "memcpy", "memset"))


def measure(ask: Ask) -> Reading:
    ops: list[Thing] = ask.args["ops"]
    things = (ask.args["what"],) if "what" in ask.args else _ANYTHING
    compare, wanted = (
        ask.args.get("compare", Compare("==")),
        ask.args.get("number", Amount("nothing", 0)),
    )
    return for_each(ask, lambda view: _each_call(view, ops, things, compare, wanted))


def _each_call(
    view: View, ops: list[Thing], things: tuple[Thing, ...], compare: Compare, wanted: Amount
) -> Reading:
    view.need_gpu()
    view.need_whole()
    calls = [call for op in ops for call in _calls(view, op)]
    if any(call.lost for call in calls):
        raise Unknown("some launches left no GPU event")
    counts = [[row for thing in things for row in find(call, thing).sure] for call in calls]
    wrong = [rows for rows in counts if compare.verdict(len(rows), len(rows), wanted) != "hit"]
    measured = together(
        [count_text(len(rows)) for rows in counts],
        Scope("region", " and ".join(op.text for op in ops)),
    )
    return Reading(
        "miss" if wrong else "hit", measured, rows=[row for rows in wrong for row in rows]
    )


def _calls(view: View, op: Thing) -> list[View]:
    if op.kind != "op":
        raise Unknown(f"`{op.text}` is no host op; write its name, as in aten::{op.word or 'mm'}")
    events = find(view, op).sure
    if not events:
        raise Unknown(f"no {op.text} in {view.label}")
    return op_views(view.work, op.text, events)


KIND = Kind(
    name="launches",
    order=20,
    patterns=(
        "[every|each] {ops:several} launches|launch nothing",
        "[every|each] {ops:several} launches|launch [{compare:phrase}] {number:count} "
        "{what:things}",
    ),
    measure=measure,
    expected=lambda args: comparison(args) or "== 0",
    examples={
        "aten::t launches 0 kernels": "a transposed view costs no kernel",
        "aten::t, aten::view and aten::reshape launch nothing": "nor a copy",
        "each aten::mm launches 1 gemm": "one product is one kernel, not two",
        "in mlp_fwd: aten::mm launches at most 1 memset": "cuBLAS may clear a workspace first",
    },
)
