"""The type of the weights: what the matmuls and convolutions of the forward pass take as such.

The recorded types of their ops decide. Weights that another op casts or unpacks first are not seen:
where an op takes the type in question and no matmul does, the prediction is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator

from foretrace.analyze.guess.grammar import Slot, one_of
from foretrace.analyze.guess.kinds import (
    GuessKind,
    Measurement,
    Query,
    judge_all,
    per_window,
    tally,
)
from foretrace.analyze.guess.traits import types_of
from foretrace.analyze.guess.windows import Unknown, Window
from foretrace.analyze.guess.words import DTYPES
from foretrace.model.autograd import ENGINE
from foretrace.model.host import Host

# op -> the place of the weight among its tensors
_WEIGHTS = {
    **dict.fromkeys(("aten::linear", "aten::mm", "aten::_int_mm", "aten::_scaled_mm"), 1),
    **dict.fromkeys(("aten::convolution", "aten::_weight_int8pack_mm"), 1),
    **dict.fromkeys(("aten::addmm", "aten::_addmm_activation"), 2),
}


def _judge(window: Window, query: Query) -> Measurement:
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
    ),
    per_window(_judge),
    expected=lambda args: f"{'not ' if 'not' in args else ''}{args['dtype']}",
    slots={"dtype": Slot(", ".join(DTYPES), one_of(DTYPES))},
)
