"""How many there are: launches, calls, and what an op launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from foretrace.base.arrays import distinct
from foretrace.base.units import count_text, plural
from foretrace.check.grammar import Slot, list_of, one_of
from foretrace.check.kinds import (
    Measurement,
    Miss,
    Query,
    comparison,
    from_selection,
    known,
    per_window,
    prediction,
    together,
)
from foretrace.check.kinds.fields import (
    hopper_names,
    host_ops,
    is_ampere,
    is_forward,
    occupancy_query,
)
from foretrace.check.selection import Selection, cpu_part, select
from foretrace.check.windows import Scope, Unknown, Window, op_windows, windows_of
from foretrace.check.words import (
    COPIES,
    EQUALS,
    HEADS,
    PHASES,
    Amount,
    Compare,
    ParseFailure,
    Selector,
    Token,
    key_at,
    read_count,
    read_selector,
)

# what people count as one: a call of one of these ops, outside the backward pass
_CALLS = {
    "convolutions": ("aten::conv1d", "aten::conv2d", "aten::conv3d"),
    "convs": ("aten::conv1d", "aten::conv2d", "aten::conv3d"),
    **{f"conv{n}ds": (f"aten::conv{n}d",) for n in (1, 2, 3)},
    "attention": ("aten::scaled_dot_product_attention",),
    "matmuls": ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"),
}
_BY_HAND = ("attention", "sdpa", "layernorm", "layer_norm", "rmsnorm", "rms_norm", "gelu", "silu")


def _count(window: Window, query: Query) -> Measurement:
    kernels = _kernels(window, query)
    if "no" in query.args and kernels.verdict == "miss" and _is_final(window, kernels.events):
        why = "it comes after the last step, and is the profiler's own: say `per step: no sync`"
        return replace(kernels, verdict="unknown", why=why)
    said = query.what.written.lower() or query.what.text.lower().removesuffix(" forward")
    if query.what.text.lower() in COPIES and not query.what.ordinal:
        memcpys = _kernels(window, replace(query, args={**query.args, "what": HEADS["memcpy"]}))
        if memcpys.verdict == kernels.verdict:
            return kernels
        both = f"{memcpys.measured} memcpys, {kernels.measured} with kernels that copy"
        return replace(kernels, verdict="unknown", measured=both, why="`copies` can mean both")
    said = said if said in _CALLS else f"{said}s"
    if kernels.verdict == "unknown" or window.gap or window.part:
        return kernels
    if said not in _CALLS:
        return _by_layers(window, query, kernels) if kernels.verdict == "miss" else kernels
    names = _CALLS[said]
    host = window.evidence.trace.host
    events = window.events(host.is_op & host.lasting & host.named(lambda name: name in names))
    calls = [event for event in events.tolist() if is_forward(host, event)]
    by_calls = query.compare.of(len(calls), query.number)
    if not calls or by_calls == kernels.verdict or (kernels.verdict == "hit" and query.what.word):
        return kernels
    of = "ops" if window.evidence.runs_on_cpu else "kernels"
    measured = f"{kernels.measured} {of}, {plural(len(calls), 'call')} in the forward pass"
    if by_calls == "hit" and said.startswith("conv"):  # helpers and gradients are no convolutions
        return Measurement("hit", measured, events=calls)
    return Measurement("unknown", measured, f"`{said}` can mean kernels, or calls of ops")


def _by_layers(window: Window, query: Query, kernels: Measurement) -> Measurement:
    """`49 rms norms` are layers, of several kernels each: unknown where that matters."""
    if [trait.kind for trait in query.what.traits] != ["group"] or query.number.value < 2:
        return kernels
    try:
        layers = len(_layers(window, query.what))
    except Unknown:
        return kernels
    if query.compare.of(layers, query.number) != "hit":
        return kernels
    measured = f"{kernels.measured} kernels, {layers} layers in the forward pass"
    why = f"`{query.what.text}` can mean kernels, or layers of several"
    return replace(kernels, verdict="unknown", measured=measured, why=why)


def _on_cpu(window: Window, query: Query) -> Selection:
    """Calls of the ops that stand for these kernels on a CPU; what they call is part of them."""
    if query.what.under and query.number.value > 1:
        raise Unknown(f"on a CPU `{query.what.text}` is many ops: name one")
    host = window.evidence.trace.host
    mask = cpu_part(window, query.what) & host.lasting
    events = np.array(window.events(mask), np.int64)
    outer = events[host.nearest(host.parent[events], mask) < 0]
    if not len(outer) and query.what.text.lower() in _BY_HAND:
        raise Unknown(f"no op is named so, but `{query.what.text}` can be written with others")
    return Selection(False, outer.tolist(), [], gap=window.gap)


def _kernels(window: Window, query: Query) -> Measurement:
    of_ops = query.what.kind == "kernel" and not query.what.is_collective
    on_cpu = window.evidence.runs_on_cpu and of_ops
    found = _on_cpu(window, query) if on_cpu else select(window, query.what)
    items, low = found.sure + found.maybe, len(found.sure)
    high = float("inf") if found.lost or found.gap else len(items)
    verdict = query.compare.verdict(low, high, query.number)
    measured = count_text(low) + ("" if low == high else " or more")
    why = found.why(query.what) if verdict == "unknown" else ""
    return from_selection(found, verdict, measured, why, items)


def _too_many_below(miss: Miss, kind: str, *ops: str) -> bool:
    """More of that kind than predicted, launched by one of these ops."""
    below = any(operation.chain and operation.chain[-1] in ops for operation in miss.operations)
    return below and miss.excess(kind) > 0


@known
def _addmm_copy(miss: Miss) -> bool:
    return _too_many_below(miss, "memcpy", "aten::addmm")


@known
def _final_sync(miss: Miss) -> bool:
    selector = miss.selector
    if miss.query.scope.kind != "trace" or selector is None:
        return False
    device_sync = miss.excess("call") > 0 and selector.name == "cudaDeviceSynchronize"
    if miss.excess("sync") <= 0 and not device_sync:
        return False
    return _is_final(miss.query.windows[0], select(miss.query.windows[0], selector).sure)


def _is_final(window: Window, waits: list[int]) -> bool:
    """Whether they are the one wait of the profiler itself, which ends a recording."""
    host, steps = window.evidence.trace.host, window.evidence.trace.spans.steps
    if len(waits) != 1 or not steps or not host.is_wait[waits[0]]:
        return False
    return int(host.start[waits[0]]) >= max(span.end_ns for span in steps)


@known
def _matmul_memset(miss: Miss) -> bool:
    matmuls = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")
    return _too_many_below(miss, "memset", *matmuls)


@known
def _whole_trace(miss: Miss) -> bool:
    """Every step has the count that was predicted for the whole trace."""
    selector, wanted = miss.selector, miss.query.args.get("number")
    several = len(miss.evidence.trace.spans.steps) > 1 and miss.query.scope.kind == "trace"
    if not several or selector is None or selector.kind == "step":
        return False
    if not isinstance(wanted, Amount) or wanted.value <= 0:
        return False
    steps = windows_of(Scope("steps"), miss.evidence)
    counts = [len(select(window, selector).sure) for window in steps]
    return miss.query.compare.symbol in ("==", "<=", "~") and all(
        count == wanted.value for count in counts
    )


def _too_few_ampere(miss: Miss) -> bool:
    """Kernels with Ampere names were counted, and the matmuls are nvjet ones."""
    ampere = miss.selector is not None and is_ampere(miss.selector) and miss.excess("kernel") < 0
    return ampere and miss.has_family("nvjet", anywhere=True)


def _too_few_queries(miss: Miss) -> bool:
    """Occupancy queries were counted, and the matmuls are nvjet ones."""
    queries = miss.names("cudaOccupancy") and miss.excess("call") < 0
    return queries and miss.has_family("nvjet", anywhere=True)


TOO_MANY = (_addmm_copy, _final_sync, _matmul_memset)  # more than counted on


@prediction(
    "counts",
    10,
    "{what:selector} {compare:compare} {number:count}",
    "[uses|use] [{compare:phrase}] {number:count} {what:selector}",
    "[uses|use] no {what:selector}",
    "constant {what:selector}",
    expected=lambda args: comparison(args) or ("same" if "constant" in args else "== 0"),
    reasons=(
        *TOO_MANY,
        replace(hopper_names, explains=_too_few_ampere),
        replace(occupancy_query, explains=_too_few_queries),
        _whole_trace,
    ),
)
def counted(query: Query) -> Measurement:
    """How many there are: kernels, one role, one op, memcpys, launches, syncs, host calls, steps.

    Counts are whole numbers. A count of GPU operations is exact only while every launch has its GPU
    event; where some are missing, a prediction that they could change is unknown.
    """
    if "constant" not in query.args:
        return per_window(_count)(query)
    found = [select(window, query.what) for window in query.windows]
    counts = [len(each.sure) for each in found]
    measured = together([count_text(count) for count in counts], query.scope)
    if len(counts) < 2 or any(each.unclear for each in found):
        return Measurement("unknown", measured, "there are no two steps that were read whole")
    return Measurement("hit" if len({*counts}) == 1 else "miss", measured)


_ANYTHING = tuple(Selector(kind, kind) for kind in ("kernel", "memcpy", "memset"))


def _calls(window: Window, op: Selector) -> list[Window]:
    if op.text.lower() in PHASES:
        return windows_of(Scope("region", op.text.lower()), window.evidence)
    called = Selector(op.text, "op", name=f"aten::{op.word}")
    op = called if called.name in window.evidence.trace.host.names else op
    events = host_ops(window, op).sure
    if not events:
        raise Unknown(f"no {op.text} in {window.label}")
    return op_windows(window.evidence, op.text, events)


def _layers(window: Window, layer: Selector) -> list[list[int]]:
    """The kernels of each call of a layer, as `rmsnorm`, in the forward pass."""
    grouped, gpu = window.evidence.trace.grouped, window.evidence.trace.gpu
    rows = np.array(select(window, layer).sure, np.int64)
    rows = rows[gpu.is_kernel[rows] & ~grouped.backward[rows]]
    if not len(rows):
        raise Unknown(f"no {layer.text} in {window.label}")
    if (grouped.call[rows] < 0).any():
        raise Unknown(f"which kernels make one {layer.text} is not known")
    return [rows[grouped.call[rows] == call].tolist() for call in distinct(grouped.call[rows])]


def _launched(window: Window, op: Selector, wanted: tuple[Selector, ...]) -> list[list[int]]:
    """What each call of an op or a layer launched."""
    if [trait.kind for trait in op.traits] == ["group"] and op.kind == "kernel":
        mine = {row for each in wanted for row in select(window, each).sure}
        return [[row for row in rows if row in mine] for rows in _layers(window, op)]
    calls = _calls(window, op)
    if any(call.lost for call in calls):
        raise Unknown("some launches have no GPU event")
    return [[row for each in wanted for row in select(call, each).sure] for call in calls]


def _op(tokens: Sequence[Token], place: int) -> tuple[Selector, int]:
    """An op, or a pass; `the step launches 5 kernels` is about steps."""
    found, after = read_selector(tokens, place)
    if found.kind == "step":
        raise ParseFailure(place, ["an op"])
    return found, after


@prediction(
    "launches",
    20,
    "[every|each] {ops:several} launches|launch nothing",
    "[every|each] {ops:several} launches|launch [{compare:phrase}] {number:count} {what:selector}",
    expected=lambda args: comparison(args) or "== 0",
    slots={"several": Slot("one or more selectors, with commas or `and`", list_of(_op, least=1))},
    reasons=TOO_MANY,
)
@per_window
def _each_call(window: Window, query: Query) -> Measurement:
    """What an op launches: every call of it, with everything it calls in turn; of a layer such as
    `rmsnorm`, every call in the forward pass.

    `launches nothing` means no kernel, memcpy or memset at all: the op only changes a view.
    """
    window.need_gpu()
    window.need_whole()
    ops: list[Selector] = query.args["ops"]
    wanted = (query.what,) if "what" in query.args else _ANYTHING
    launched = [rows for op in ops for rows in _launched(window, op, wanted)]
    wrong = [rows for rows in launched if query.compare.of(len(rows), query.number) != "hit"]
    of_ops = Scope("region", " and ".join(op.text for op in ops))
    measured = together([count_text(len(rows)) for rows in launched], of_ops)
    rows = [row for found in wrong for row in found]
    return Measurement("miss" if wrong else "hit", measured, rows=rows)


_CALLED = ("called", "calls", "invoked", "executed", "run", "runs")
_THERE = ("used", "there", "present", "launched", "happens", "happen", "occurs", "occur")
_ROLE_CALLS = {"softmax": "softmax", "conv": "convolution", "sdpa": "scaled_dot_product_attention"}
_ROLE_CALLS["attention"] = _ROLE_CALLS["sdpa"]
_OFTEN = {"once": 1, "twice": 2, "thrice": 3}
_ONE = Amount("1", 1)


def _complete(args: Mapping[str, Any]) -> dict[str, Any]:
    """At least one, unless the wording says how often, or denies it."""
    if "not" in args or "no" in args:
        return {**args, "compare": EQUALS, "number": Amount("0", 0)}
    often = args.get("times") or args.get("number")
    compare = args.get("compare", EQUALS if often else Compare(">="))
    return {**args, "compare": compare, "number": often or _ONE}


def _call(query: Query, compare: Compare) -> Selector:
    """The host op of an op word; where only its kernels are known, they do not say how often."""
    what, trace = query.what, query.windows[0].evidence.trace
    if what.kind != "kernel" or what.is_collective or what.text.endswith(("kernel", "kernels")):
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


@prediction(
    "presence",
    95,
    "{what:selector} [is|are] [not] {called:called} [{compare:phrase}] [{times:times}]",
    "no {what:selector} [is|are] {called:called}",
    "[{compare:phrase}] {number:count} {what:selector} [is|are] {called:called}",
    "{what:selector} [not] syncs|sync [with] [gpu] [{compare:phrase}] [{times:times}]",
    "[uses|use|has|have] {what:particular}",
    expected=lambda args: comparison(_complete(args)),
    slots={
        "called": Slot(
            ", ".join((*_CALLED, *_THERE)), one_of({word: word for word in (*_CALLED, *_THERE)})
        ),
        "particular": Slot("a selector that says more than `kernels`", _particular),
        "times": Slot("once, twice, or a whole number and `times`", _times),
    },
)
def _present(query: Query) -> Measurement:
    """Whether something is there at all, or how often it is called.

    `fp64 is used`, `cudaMalloc is called in every step` and `copies from pageable memory` hold when
    there is one; `gelu is called once per step` when there is exactly one call. What is called is
    the host op, where the trace has it: a call can launch several kernels. `.item() syncs 32 times`
    counts the waits of the host inside that op.
    """
    args = _complete(query.args)
    if "syncs" in args:
        op = query.what
        if op.kind != "op":
            raise Unknown(f"`{op.text}` is not a host op: say for example `.item() syncs`")
        args["what"] = Selector(f"sync inside {op.name}", "sync", under=op.name)
    elif args.get("called") in _CALLED:
        args["what"] = _call(query, args["compare"])
    found = counted.measure(replace(query, args=args))
    what: Selector = args["what"]
    if found.measured.startswith("0") and query.windows[0].evidence.mentions(what.word):
        raise Unknown(f"no kernel is known to do {what.word}, but a name has it")
    return found
