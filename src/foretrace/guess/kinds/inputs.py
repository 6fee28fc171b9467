"""The recorded shapes of an op's tensor inputs, in order; scalars and lists are passed over."""

from __future__ import annotations

import json
from typing import Any

from foretrace.guess.kinds.fields import seen
from foretrace.guess.reading import Ask, Kind, Reading, for_each, judge_all
from foretrace.guess.select import find
from foretrace.guess.things import Thing
from foretrace.guess.view import Unknown, View


def measure(ask: Ask) -> Reading:
    work = ask.views[0].work
    if not work.trace.has("shapes"):
        raise Unknown("no shapes in this trace: record with record_shapes=True")
    recorded = dict(work.trace.tables["shapes"].select("event", "dims").iter_rows())
    return for_each(ask, lambda view: _takes(view, ask, recorded))


def _takes(view: View, ask: Ask, recorded: dict[int, Any]) -> Reading:
    op: Thing = ask.args["op"]
    if op.kind != "op":
        raise Unknown(f"`{op.text}` is no host op; write its name, as in aten::{op.word or 'mm'}")
    found = find(view, op)
    events = found.sure
    shapes = [_tensors(recorded.get(event)) for event in events]
    wanted: list[list[int]] = ask.args["shapes"]
    answers = [None if taken is None else taken[: len(wanted)] == wanted for taken in shapes]
    verdict = judge_all(ask.args["quantifier"], answers, found.unclear)
    lacking = "not every call has its shapes" if events else f"no {op.text} in {view.label}"
    why = found.gap or lacking if verdict == "unknown" else ""
    return Reading(
        verdict, seen([_shown(taken) for taken in shapes]) or f"no {op.text}", why, events=events
    )


def _tensors(dims: str | None) -> list[list[int]] | None:
    """Shapes of tensors: lists of whole numbers that are not empty."""
    try:
        found = json.loads(dims) if dims else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list):
        return None
    return [
        shape
        for shape in found
        if isinstance(shape, list) and shape and all(isinstance(size, int) for size in shape)
    ]


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
