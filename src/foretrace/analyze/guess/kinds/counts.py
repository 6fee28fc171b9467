"""How many there are: kernels, one role, one op, memcpys, launches, syncs, host calls, steps.

Counts are whole numbers. A count of GPU operations is exact only while every launch has its GPU
event; where some are missing, a prediction that they could change is unknown.
"""

from __future__ import annotations

from dataclasses import replace

from foretrace.analyze.guess import kinds
from foretrace.analyze.guess.kinds.calls import OCCUPANCY_QUERY
from foretrace.analyze.guess.kinds.fields import HOPPER_NAMES, is_ampere
from foretrace.analyze.guess.selection import select
from foretrace.analyze.guess.windows import Scope, Window, windows_of
from foretrace.analyze.guess.words import COPIES, HEADS, Amount
from foretrace.base.units import count_text
from foretrace.model.autograd import ENGINE

# what people count as one: a call of one of these ops, outside the backward pass
_CALLS = {
    "convolutions": ("aten::conv1d", "aten::conv2d", "aten::conv3d"),
    "convs": ("aten::conv1d", "aten::conv2d", "aten::conv3d"),
    "attention": ("aten::scaled_dot_product_attention",),
    "matmuls": ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"),
}


def _count(window: Window, query: kinds.Query) -> kinds.Measurement:
    kernels = _kernels(window, query)
    said = query.what.written.lower() or query.what.text.lower().removesuffix(" forward")
    if query.what.text.lower() in COPIES and not query.what.ordinal:
        return _copies(window, query, kernels)
    if said not in _CALLS or kernels.verdict == "unknown" or window.gap or window.part:
        return kernels
    calls = _forward_calls(window, _CALLS[said])
    by_calls = query.compare.of(len(calls), query.number)
    if not calls or by_calls == kernels.verdict:
        return kernels
    measured = f"{kernels.measured} kernels, {count_text(len(calls))} calls in the forward pass"
    if by_calls == "hit" and said.startswith("conv"):  # helpers and gradients are no convolutions
        return kinds.Measurement("hit", measured, events=calls)
    return kinds.Measurement("unknown", measured, f"`{said}` can mean kernels, or calls of ops")


def _measure(query: kinds.Query) -> kinds.Measurement:
    if "constant" not in query.args:
        return kinds.per_window(_count)(query)
    found = [select(window, query.what) for window in query.windows]
    counts = [len(each.sure) for each in found]
    measured = kinds.together([count_text(count) for count in counts], query.scope)
    if len(counts) < 2 or any(each.unclear for each in found):
        return kinds.Measurement("unknown", measured, "there are no two steps that were read whole")
    return kinds.Measurement("hit" if len({*counts}) == 1 else "miss", measured)


def _copies(window: Window, query: kinds.Query, found: kinds.Measurement) -> kinds.Measurement:
    """`copies` are memcpys, and kernels that copy too: unknown where that matters."""
    memcpys = _kernels(window, replace(query, args={**query.args, "what": HEADS["memcpy"]}))
    if memcpys.verdict == found.verdict:
        return found
    measured = f"{memcpys.measured} memcpys, {found.measured} with kernels that copy"
    return replace(found, verdict="unknown", measured=measured, why="`copies` can mean both")


def _forward_calls(window: Window, names: tuple[str, ...]) -> list[int]:
    host = window.evidence.trace.host
    events = window.events(host.is_op & host.lasting & host.named(lambda name: name in names))
    inside = (any(op.startswith(ENGINE) for op in host.op_chain(int(one))) for one in events)
    return [int(one) for one, backward in zip(events, inside, strict=True) if not backward]


def _kernels(window: Window, query: kinds.Query) -> kinds.Measurement:
    found = select(window, query.what)
    items, low = found.sure + found.maybe, len(found.sure)
    high = float("inf") if found.lost or found.gap else len(items)
    verdict = query.compare.verdict(low, high, query.number)
    measured = count_text(low) + ("" if low == high else " or more")
    why = found.why(query.what) if verdict == "unknown" else ""
    return kinds.from_selection(found, verdict, measured, why, items)


def _too_many_below(miss: kinds.Miss, kind: str, *ops: str) -> bool:
    """More of that kind than predicted, launched by one of these ops."""
    below = any(operation.chain and operation.chain[-1] in ops for operation in miss.operations)
    return below and miss.excess(kind) > 0


def _addmm_copy(miss: kinds.Miss) -> bool:
    return _too_many_below(miss, "memcpy", "aten::addmm")


ADDMM_COPY = kinds.known("addmm_copy", _addmm_copy)


def _final_sync(miss: kinds.Miss) -> bool:
    selector, spans = miss.selector, miss.evidence.trace.spans
    if miss.query.scope.kind != "trace" or selector is None or not spans.steps:
        return False
    device_sync = miss.excess("call") > 0 and selector.name == "cudaDeviceSynchronize"
    if miss.excess("sync") <= 0 and not device_sync:
        return False
    waits = select(miss.query.windows[0], selector).sure
    end = max(span.end_ns for span in spans.steps)
    return len(waits) == 1 and int(spans.host.start[waits[0]]) >= end


FINAL_SYNC = kinds.known("final_sync", _final_sync)


def _matmul_memset(miss: kinds.Miss) -> bool:
    matmuls = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")
    return _too_many_below(miss, "memset", *matmuls)


MATMUL_MEMSET = kinds.known("matmul_memset", _matmul_memset)


def _whole_trace(miss: kinds.Miss) -> bool:
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


WHOLE_TRACE = kinds.known("whole_trace", _whole_trace)


def _too_few_ampere(miss: kinds.Miss) -> bool:
    """Kernels with Ampere names were counted, and the matmuls are nvjet ones."""
    ampere = miss.selector is not None and is_ampere(miss.selector) and miss.excess("kernel") < 0
    return ampere and miss.has_family("nvjet", anywhere=True)


def _too_few_queries(miss: kinds.Miss) -> bool:
    """Occupancy queries were counted, and the matmuls are nvjet ones."""
    queries = miss.names("cudaOccupancy") and miss.excess("call") < 0
    return queries and miss.has_family("nvjet", anywhere=True)


TOO_MANY = (ADDMM_COPY, FINAL_SYNC, MATMUL_MEMSET)  # more than counted on
KIND = kinds.GuessKind(
    "counts",
    10,
    (
        "{what:selector} {compare:compare} {number:count}",
        "[uses|use] [{compare:phrase}] {number:count} {what:selector}",
        "[uses|use] no {what:selector}",
        "constant {what:selector}",
    ),
    _measure,
    expected=lambda args: kinds.comparison(args) or ("same" if "constant" in args else "== 0"),
    reasons=(
        *TOO_MANY,
        replace(HOPPER_NAMES, explains=_too_few_ampere),
        replace(OCCUPANCY_QUERY, explains=_too_few_queries),
        WHOLE_TRACE,
    ),
)
