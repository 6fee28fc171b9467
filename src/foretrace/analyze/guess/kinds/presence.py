"""Whether something is there at all, or how often it is called.

`fp64 is used`, `cudaMalloc is called in every step` and `copies from pageable memory` hold when
there is one; `gelu is called once per step` when there is exactly one call. What is called is the
host op, where the trace has it: a call can launch several kernels. `.item() syncs 32 times`
counts the waits of the host inside that op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from foretrace.analyze.guess.grammar import Slot, one_of
from foretrace.analyze.guess.kinds import GuessKind, Measurement, Query, comparison, counts
from foretrace.analyze.guess.windows import Unknown
from foretrace.analyze.guess.words import (
    EQUALS,
    Amount,
    Compare,
    ParseFailure,
    Selector,
    Token,
    key_at,
    read_count,
    read_selector,
)

_CALLED = ("called", "calls", "invoked", "executed", "run", "runs")
_THERE = ("used", "there", "present", "launched", "happens", "happen", "occurs", "occur")
_ROLE_CALLS = {"softmax": "softmax", "conv": "convolution", "sdpa": "scaled_dot_product_attention"}
_ROLE_CALLS["attention"] = _ROLE_CALLS["sdpa"]
_OFTEN = {"once": 1, "twice": 2, "thrice": 3}
_ONE = Amount("1", 1)


def measure(query: Query) -> Measurement:
    """Judge `fp64 is used`, `gelu is called once per step` or `.item() syncs 32 times`."""
    args = _complete(query.args)
    if "syncs" in args:
        args["what"] = _waits(query.what)
    elif args.get("called") in _CALLED:
        args["what"] = _call(query, args["compare"])
    found = counts.KIND.measure(replace(query, args=args))
    what: Selector = args["what"]
    if found.measured.startswith("0") and query.windows[0].evidence.mentions(what.word):
        raise Unknown(f"no kernel is known to do {what.word}, but a name has it")
    return found


def _complete(args: Mapping[str, Any]) -> dict[str, Any]:
    """At least one, unless the wording says how often, or denies it."""
    if "not" in args or "no" in args:
        return {**args, "compare": EQUALS, "number": Amount("0", 0)}
    often = args.get("times") or args.get("number")
    compare = args.get("compare", EQUALS if often else Compare(">="))
    return {**args, "compare": compare, "number": often or _ONE}


def _waits(what: Selector) -> Selector:
    if what.kind != "op":
        raise Unknown(f"`{what.text}` is not a host op: say for example `.item() syncs`")
    return Selector(f"sync inside {what.name}", "sync", under=what.name)


def _call(query: Query, compare: Compare) -> Selector:
    """The host op of an op word; where only its kernels are known, they do not say how often."""
    what, trace = query.what, query.windows[0].evidence.trace
    if what.kind != "kernel" or any(trait.kind == "collective" for trait in what.traits):
        return what
    op = f"aten::{what.word or _ROLE_CALLS.get(what.text.lower().removesuffix('s'), '')}"
    if op in trace.host.names:
        return Selector(what.text, "op", name=op)
    if compare.symbol != ">=" and not (what.word and trace.host.is_op.any()):
        raise Unknown(f"`{what.text}` means kernels, and a call can launch several")
    if query.windows[0].evidence.is_compiled and compare.symbol != ">=":
        raise Unknown(f"torch.compile replaced the calls of {what.text}")
    return what


def _times(tokens: Sequence[Token], place: int) -> tuple[Amount, int]:
    """`once`, `twice`, `32 times`."""
    word = key_at(tokens, place)
    if word in _OFTEN:
        return Amount(str(_OFTEN[word]), _OFTEN[word]), place + 1
    amount, after = read_count(tokens, place)
    if key_at(tokens, after) not in ("times", "time"):
        raise ParseFailure(after, ["times"])
    return amount, after + 1


def _particular(tokens: Sequence[Token], place: int) -> tuple[Selector, int]:
    """A selector that says more than `kernels`, of which every trace has some."""
    found, after = read_selector(tokens, place)
    if not (found.name or found.word or found.under or found.traits):
        raise ParseFailure(after, ["==", "<", ">"])
    return found, after


KIND = GuessKind(
    "presence",
    95,
    (
        "{what:selector} [is|are] [not] {called:called} [{compare:phrase}] [{times:times}]",
        "no {what:selector} [is|are] {called:called}",
        "[{compare:phrase}] {number:count} {what:selector} [is|are] {called:called}",
        "{what:selector} [not] syncs|sync [with] [gpu] [{compare:phrase}] [{times:times}]",
        "[uses|use|has|have] {what:particular}",
    ),
    measure,
    expected=lambda args: comparison(_complete(args)),
    slots={
        "called": Slot(
            ", ".join((*_CALLED, *_THERE)), one_of({word: word for word in (*_CALLED, *_THERE)})
        ),
        "particular": Slot("a selector that says more than `kernels`", _particular),
        "times": Slot("once, twice, or a whole number and `times`", _times),
    },
)
