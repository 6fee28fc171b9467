"""The weights: the type of what the matmuls and convolutions of the forward pass take as such, and
whether they are copied to the GPU.

The recorded types of their ops decide. Weights that another op casts or unpacks first are not seen:
where an op takes the type in question and no matmul does, the prediction is unknown. A copy is one
of a weight where it has the shape of one and of no activation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from foretrace.analyze.guess.evidence import Evidence
from foretrace.analyze.guess.grammar import Slot, one_of
from foretrace.analyze.guess.kinds import (
    GuessKind,
    Measurement,
    Query,
    judge_all,
    per_window,
    tally,
)
from foretrace.analyze.guess.selection import certain
from foretrace.analyze.guess.traits import types_of
from foretrace.analyze.guess.windows import Unknown, Window
from foretrace.analyze.guess.words import DTYPES, HEADS, Trait
from foretrace.model.autograd import ENGINE
from foretrace.model.host import Host

_UPLOADS = replace(HEADS["memcpy"], text="copies to the GPU", traits=(Trait("direction", "htod"),))
# op -> the place of the weight among its tensors
_WEIGHTS = {
    **dict.fromkeys(("aten::linear", "aten::mm", "aten::_int_mm", "aten::_scaled_mm"), 1),
    **dict.fromkeys(("aten::convolution", "aten::_weight_int8pack_mm"), 1),
    **dict.fromkeys(("aten::addmm", "aten::_addmm_activation"), 2),
}


def _judge(window: Window, query: Query) -> Measurement:
    return (_copied if "copied" in query.args else _typed)(window, query)


def _copied(window: Window, query: Query) -> Measurement:
    """Whether a copy to the GPU has the shape of a weight, and of no activation."""
    rows = certain(window, _UPLOADS).sure
    if not rows:
        return Measurement(query.hit_if(False), "0 copies to the GPU")
    evidence, ops = window.evidence, window.evidence.trace.origins.op
    copied = [_shape(evidence, int(ops[row]), 0) for row in rows]
    host = evidence.trace.host
    events = np.flatnonzero(host.is_op & host.lasting & host.named(lambda name: name in _WEIGHTS))
    calls = [(event, _WEIGHTS[evidence.name(event)]) for event in events.tolist()]
    weights = {_shape(evidence, event, place) for event, place in calls}
    others = {_shape(evidence, event, max(place - 1, 0)) for event, place in calls}
    known = {shape for shape in weights - others if len(shape) > 1}
    found = [row for row, shape in zip(rows, copied, strict=True) if {shape, shape[::-1]} & known]
    measured = f"{len(found)} of {len(rows)} copies to the GPU have the shape of a weight"
    if not any(weights):
        raise Unknown("no shapes in this trace: record with record_shapes=True")
    if not found:
        raise Unknown(f"{measured}, and the trace does not say what else they are")
    return Measurement(query.hit_if(True), measured, rows=found)


def _shape(evidence: Evidence, event: int, place: int) -> tuple[int, ...]:
    shapes = evidence.inputs(event, "shapes") if event >= 0 else None
    return tuple(shapes[place]) if shapes and place < len(shapes) else ()


def _typed(window: Window, query: Query) -> Measurement:
    trace, wanted = window.evidence.trace, query.args["dtype"]
    if not trace.has("shapes"):
        raise Unknown("no types in this trace: record with record_shapes=True")
    host = trace.host
    mask = host.is_op & host.lasting
    called = [(int(event), window.evidence.name(event)) for event in window.events(mask)]
    calls = {event: name for event, name in called if name in _WEIGHTS and _forward(host, event)}
    outer = {above for event in calls for above in _above(host, event)}  # linear calls mm
    inner = {event: name for event, name in calls.items() if event not in outer}
    weights = {event: _weight(window, event, _WEIGHTS[name]) for event, name in inner.items()}
    if not any(weights.values()):
        raise Unknown("no matmul or convolution with recorded types")
    answers = [None if kind is None else kind == wanted for kind in weights.values()]
    taken = any(wanted in (types_of(window.evidence, event) or ()) for event, _ in called)
    measured = tally([kind or "not recorded" for kind in weights.values()])
    if taken and True not in answers:
        why = f"an op takes {wanted}, and the trace does not say whether it is a weight"
        return Measurement("unknown", measured, why)
    denied = "not" in query.args
    verdict = judge_all("no" if denied else "every", answers, unclear=bool(window.gap))
    return Measurement(verdict, measured, events=list(weights))


def _forward(host: Host, event: int) -> bool:
    return not any(op.startswith(ENGINE) for op in host.op_chain(event))


def _above(host: Host, event: int) -> Iterator[int]:
    while (event := int(host.parent[event])) >= 0:
        yield event


def _weight(window: Window, event: int, place: int) -> str | None:
    types = types_of(window.evidence, event) or []
    return types[place] if place < len(types) and "?" not in types else None


KIND = GuessKind(
    "weights",
    31,
    (
        "weights is|are [not] {dtype:dtype}",
        "weights uses|use {dtype:dtype}",
        "weights are [not] copied",
    ),
    per_window(_judge),
    expected=lambda args: f"{'not ' if 'not' in args else ''}{args.get('dtype', 'copied')}",
    slots={"dtype": Slot(", ".join(DTYPES), one_of(DTYPES))},
)
