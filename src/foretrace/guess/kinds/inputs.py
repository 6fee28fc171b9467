"""The recorded shapes of an op's tensor inputs, in order; scalars and lists are passed over."""

from __future__ import annotations

from foretrace.guess.kinds.fields import seen
from foretrace.guess.reading import Ask, Kind, Reading, for_each, judge_all
from foretrace.guess.select import find
from foretrace.guess.things import Thing
from foretrace.guess.view import Unknown, View
from foretrace.model.arguments import Arguments, Signature


def measure(ask: Ask) -> Reading:
    work = ask.views[0].work
    if not work.trace.has("shapes"):
        raise Unknown("no shapes in this trace: record with record_shapes=True")
    return for_each(ask, lambda view: _takes(view, ask, work.trace.arguments))


def _takes(view: View, ask: Ask, recorded: Arguments) -> Reading:
    op: Thing = ask.args["op"]
    if op.kind != "op":
        raise Unknown(f"`{op.text}` is no host op; write its name, as in aten::{op.word or 'mm'}")
    found = find(view, op)
    events = found.sure
    shapes = [_tensors(recorded.of(event)) for event in events]
    wanted: list[list[int]] = ask.args["shapes"]
    answers = [None if taken is None else taken[: len(wanted)] == wanted for taken in shapes]
    verdict = judge_all(ask.args["quantifier"], answers, found.unclear)
    lacking = "not every call has its shapes" if events else f"no {op.text} in {view.label}"
    why = found.gap or lacking if verdict == "unknown" else ""
    return Reading(
        verdict, seen([_shown(taken) for taken in shapes]) or f"no {op.text}", why, events=events
    )


def _tensors(found: Signature | None) -> list[list[int]] | None:
    return None if found is None else found.tensors


def _shown(shapes: list[list[int]] | None) -> str:
    return (
        "no shapes"
        if shapes is None
        else " and ".join("x".join(map(str, shape)) for shape in shapes)
    )


KIND = Kind(
    name="inputs",
    order=35,
    patterns=("{quantifier:quantifier} {op:things} takes|take {shapes:shapes}",),
    measure=measure,
    examples={
        "some aten::mm takes 8192x768 and 768x3072": "(64, 128, 768) was flattened to 8192 rows",
        "every aten::gelu takes 64x128x3072": "the first input is enough",
    },
)
