"""Work and traffic: flops and bytes of kernels from recorded shapes, bytes of copies, and the rates
they make.

`each` asks it of every kernel; without it the sum over the place is meant. `rate` and `bandwidth`
are always of each kernel, at its own duration. Flops and bytes are those that the operation must do
and move; what a kernel moved in fact is not in a trace. Bytes that are only estimated (a Triton
kernel's arguments do not say what is read and what is written) leave a prediction unknown.
"""

from __future__ import annotations

from collections.abc import Callable

from foretrace.guess.kinds.fields import seen
from foretrace.guess.measures import each
from foretrace.guess.reading import Ask, Kind, Reading, for_each
from foretrace.guess.select import find
from foretrace.guess.things import Thing
from foretrace.guess.view import View
from foretrace.units import bytes_text, flops_text

_TEXT: dict[str, Callable[[float], str]] = {
    "flops": flops_text,
    "bytes": bytes_text,
    "rate": lambda value: flops_text(value) + "/s",
    "bandwidth": lambda value: bytes_text(value) + "/s",
}
_PER_SECOND = {"rate": "flops", "bandwidth": "bytes"}


def measure(ask: Ask) -> Reading:
    quantity = next(name for name in _TEXT if name in ask.args)
    return for_each(ask, lambda view: _size(view, ask, quantity))


def _size(view: View, ask: Ask, quantity: str) -> Reading:
    thing: Thing = ask.args["what"]
    values = _values(view, thing, quantity)
    shown = values if "each" in ask.args or quantity in _PER_SECOND else [sum(values)]
    verdicts = [ask.args["compare"].verdict(value, value, ask.args["amount"]) for value in shown]
    text = (
        seen([_TEXT[quantity](value) for value in shown])
        if len(shown) > 1
        else _TEXT[quantity](shown[0])
    )
    return Reading("miss" if "miss" in verdicts else "hit", text, rows=find(view, thing).sure)


def _values(view: View, thing: Thing, quantity: str) -> list[float]:
    if quantity not in _PER_SECOND:
        return each(view, thing, quantity)
    amounts, times = each(view, thing, _PER_SECOND[quantity]), each(view, thing, "time")
    return [amount / max(time, 1) * 1e9 for amount, time in zip(amounts, times, strict=True)]


KIND = Kind(
    name="sizes",
    order=60,
    patterns=tuple(
        f"{{what:things}} {name} {{compare:compare}} {{amount:{name}}} [each]" for name in _TEXT
    ),
    measure=measure,
    examples={
        "gemm flops == 38.65 GFLOP each": "as precise as it is written",
        "in mlp_fwd: gemm flops == 116 GFLOP": "the sum of one call",
        "in mlp_fwd: pointwise bytes == 252 "
        "MB": "gelu reads and writes, mul reads two and writes one",
        "memcpy bytes == 32 MiB each": "copies record their own size",
        "gemm rate > 500 TFLOP/s": "flops over duration, of every one",
        "pointwise bandwidth > 2 TB/s": "bytes over duration, of every one",
    },
)
