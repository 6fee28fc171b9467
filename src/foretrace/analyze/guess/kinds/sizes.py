"""Compute and memory traffic: FLOPs and bytes of kernels from recorded shapes, bytes of memcpys,
and the rates they give.

`each` judges every kernel; without it the sum over the scope is meant. `rate` and `bandwidth` are
always of each kernel, at its own duration. FLOPs and bytes are those that the op must do and move;
what a kernel in fact moved is not in a trace. Bytes that are only estimated (a Triton kernel's
arguments do not say what is read and what is written) leave a prediction unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from foretrace.analyze.guess.kinds import GuessKind, Measurement, Query, per_window, tally
from foretrace.analyze.guess.selection import each, select
from foretrace.analyze.guess.windows import Window
from foretrace.analyze.guess.words import Compare, Selector
from foretrace.base.units import bytes_text, flops_text

_TEXT: dict[str, Callable[[float], str]] = {
    "flops": flops_text,
    "bytes": bytes_text,
    "rate": lambda value: flops_text(value) + "/s",
    "bandwidth": lambda value: bytes_text(value) + "/s",
}
_PER_SECOND = {"rate": "flops", "bandwidth": "bytes"}


def _size(window: Window, query: Query) -> Measurement:
    quantity = next(name for name in _TEXT if name in query.args)
    if "amount" not in query.args:  # `gemm reaches 500 TFLOP/s`
        at_least = {"compare": Compare(">="), "amount": query.args[quantity]}
        query = replace(query, args=at_least | dict(query.args))
    values = _values(window, query.what, quantity)
    shown = values if "each" in query.args or quantity in _PER_SECOND else [sum(values)]
    verdicts = [query.judge(value) for value in shown]
    texts = [_TEXT[quantity](value) for value in shown]
    measured = tally(texts) if len(texts) > 1 else texts[0]
    verdict = "miss" if "miss" in verdicts else "hit"
    return Measurement(verdict, measured, rows=select(window, query.what).sure)


def _values(window: Window, selector: Selector, quantity: str) -> list[float]:
    if quantity not in _PER_SECOND:
        return each(window, selector, quantity)
    amounts = each(window, selector, _PER_SECOND[quantity])
    times = each(window, selector, "time")
    return [amount / max(time, 1) * 1e9 for amount, time in zip(amounts, times, strict=True)]


KIND = GuessKind(
    "sizes",
    60,
    tuple(
        f"{{what:selector}} {name} {{compare:compare}} {{amount:{name}}} [each]" for name in _TEXT
    )
    + tuple(
        f"{{what:selector}} reaches [{{compare:compare}}] {{{name}:{name}}}" for name in _PER_SECOND
    ),
    per_window(_size),
)
