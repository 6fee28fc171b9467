"""Sorting, selection and scans: bytes only. The input is read once and each output written once.

A radix sort makes a pass per digit and a large scan two; passes beyond the first depend on the
algorithm and are not counted, which the note says. A scan in several kernels is one that moves
everything and others that prepare its state.
"""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.model.costs._call import OpCall, Tensor
from foretrace.model.costs._cost import Cost, CostKind, Launch, at_least, moved, table
from foretrace.model.costs._names import cub_part
from foretrace.model.costs._types import INTEGER, category

PASSES = "one pass; sorting makes several"


def _sort(call: OpCall) -> Cost:
    """sort: values and 64-bit indices of the input's shape."""
    source = call.need(0)
    return moved([source], [source.dense(), source.dense("long int")], note=PASSES)


def _argsort(call: OpCall) -> Cost:
    return moved([call.need(0)], [call.need(0).dense("long int")], note=PASSES)


def _topk(call: OpCall) -> Cost:
    """topk (self, k, dim, largest, sorted), kthvalue (self, k, dim): values and indices."""
    source, count, dim = call.need(0), call.integer(1), call.integer(2)
    if count is None or dim is None or not source.dims:
        return at_least([source], None, "k is not recorded")
    dims = list(source.dims)
    dims[dim % len(dims)] = 1 if call.name == "aten::kthvalue" else count
    out = Tensor(tuple(dims), source.type)
    return moved([source], [out, out.dense("long int")], note=PASSES)


def _scanned(call: OpCall) -> tuple[Tensor, list[Tensor]]:
    """Input and outputs of cumsum, cumprod (self, dim, dtype): integers widen to 64 bits.

    cummax and cummin add indices. Old traces record the empty place of a new result before `self`.
    """
    place = 1 if list(call.types[:1]) == [""] else 0
    source = call.need(place)
    if call.name in ("aten::cummax", "aten::cummin"):
        return source, [source.dense(), source.dense("long int")]
    if call.name.endswith("_"):
        return source, [source.dense()]
    widened = "long int" if category(source.type) <= INTEGER else source.type
    return source, [source.dense(call.scalar_type(place + 2) or widened)]


def _scan(call: OpCall) -> Cost:
    source, outs = _scanned(call)
    return moved([source], outs)


def _sort_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    """Every pass of a sort of one dimension handles every item."""
    source = call.tensor(0)
    return cub_part(kernel, source.elements if source and len(source.dims) == 1 else None)


def _scan_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    scans = sum("DeviceScanKernel" in each.name for each in kernels)
    if "DeviceScanKernel" not in kernel.name or scans > 1:
        return None
    source, outs = _scanned(call)
    return at_least([source], outs, "reads the input, writes the result")


def _search(call: OpCall) -> Cost:
    """searchsorted (sorted, values), bucketize (values, boundaries): a 64-bit place per value."""
    first, second = call.need(0), call.need(1)
    values = second if call.name == "aten::searchsorted" else first
    return moved([first, second], [values.dense("long int")])


_SCANS = "cumsum cumsum_ cumprod cumprod_ logcumsumexp cummax cummin"

KIND = CostKind(
    prices={
        **table("sort msort", _sort),
        "aten::argsort": _argsort,
        **table("topk kthvalue", _topk),
        **table(_SCANS, _scan),
        **table("searchsorted bucketize", _search),
    },
    shares={**table("sort argsort", _sort_share), **table(_SCANS, _scan_share)},
)
