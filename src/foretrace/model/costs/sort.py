"""Sorting, selection and scans: bytes only. The input is read once and each output written once, at
the least.

A radix sort makes a pass per digit and a large scan two; passes beyond the first depend on the
algorithm and are not counted, which the note says. A scan in several kernels is one that moves
everything and others that prepare its state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from foretrace.model.costs._call import Cost, Kind, Launch, OpCall, Tensor, at_least, moved
from foretrace.model.costs._cub import cub_part
from foretrace.model.costs._types import INTEGER, category

PASSES = "one pass; sorting makes several"


def _sort(call: OpCall) -> Cost | None:
    """sort: values and 64-bit indices of the input's shape."""
    source = call.tensor(0)
    if source is None:
        return None
    outs = [Tensor(source.dims, source.type), Tensor(source.dims, "long int")]
    return replace(moved([source], outs), note=PASSES)


def _argsort(call: OpCall) -> Cost | None:
    source = call.tensor(0)
    return (
        None
        if source is None
        else replace(moved([source], [Tensor(source.dims, "long int")]), note=PASSES)
    )


def _topk(call: OpCall) -> Cost | None:
    """topk (self, k, dim, largest, sorted), kthvalue (self, k, dim): `k` values and indices along
    `dim`.
    """
    source, count, dim = call.tensor(0), call.integer(1), call.integer(2)
    if source is None:
        return None
    if count is None or dim is None or not source.dims:
        return at_least([source], "k is not recorded")
    dims = list(source.dims)
    dims[dim % len(dims)] = 1 if call.name == "aten::kthvalue" else count
    outs = [Tensor(tuple(dims), source.type), Tensor(tuple(dims), "long int")]
    return replace(moved([source], outs), note=PASSES)


def _scan(call: OpCall) -> Cost | None:
    """cumsum, cumprod (self, dim, dtype): integers widen to 64 bits; cummax and cummin add indices.

    Where a result was to be made first, old traces record its empty place before `self`.
    """
    place = 1 if list(call.types[:1]) == [""] else 0
    source = call.tensor(place)
    if source is None:
        return None
    if call.name in ("aten::cummax", "aten::cummin"):
        return moved([source], [Tensor(source.dims, source.type), Tensor(source.dims, "long int")])
    widened = "long int" if category(source.type) <= INTEGER else source.type
    out_type = source.type if call.name.endswith("_") else call.scalar_type(place + 2) or widened
    return moved([source], [Tensor(source.dims, out_type)])


def _sort_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    """A sort of one dimension hands every item to each of its passes."""
    source = call.tensor(0)
    return cub_part(kernel, source.elements if source and len(source.dims) == 1 else None)


def _scan_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    whole = _scan(call)
    if (
        whole is None
        or "DeviceScanKernel" not in kernel.name
        or sum("DeviceScanKernel" in each.name for each in kernels) > 1
    ):
        return None
    return replace(whole, note="at least: the input read, the result written")


def _search(call: OpCall) -> Cost | None:
    """searchsorted (sorted, values), bucketize (values, boundaries): a 64-bit place per value."""
    first, second = call.tensor(0), call.tensor(1)
    if first is None or second is None:
        return None
    values = second if call.name == "aten::searchsorted" else first
    return moved([first, second], [Tensor(values.dims, "long int")])


_SCANS = [
    f"aten::{name}"
    for name in ("cumsum", "cumsum_", "cumprod", "cumprod_", "logcumsumexp", "cummax", "cummin")
]

KIND = Kind(
    prices={
        "aten::sort": _sort,
        "aten::msort": _sort,
        "aten::argsort": _argsort,
        "aten::topk": _topk,
        "aten::kthvalue": _topk,
        **dict.fromkeys(_SCANS, _scan),
        "aten::searchsorted": _search,
        "aten::bucketize": _search,
    },
    examples=(
        (OpCall("aten::sort", [[8, 100]], ["float"]), Cost(None, 3200, 3200 + 6400, PASSES)),
        (
            OpCall(
                "aten::topk",
                [[4, 1000], [], []],
                ["c10::Half", "Scalar", "Scalar"],
                concrete=["", "8", "-1"],
            ),
            Cost(None, 8000, 4 * 8 * (2 + 8), PASSES),
        ),
        (
            OpCall("aten::cumsum", [[32], [], []], ["int", "Scalar", ""], concrete=["", "0", ""]),
            Cost(None, 128, 256),
        ),
    ),
    shares={
        **dict.fromkeys(("aten::sort", "aten::argsort"), _sort_share),
        **dict.fromkeys(_SCANS, _scan_share),
    },
    split=(
        (
            OpCall("aten::cumsum", [[], [300], [], []], ["", "long", "Scalar", ""]),
            {
                Launch(
                    "cub::DeviceScanInitKernel<cub::ScanTileState<long, true> >", "reduction", 1
                ): Cost(None, 0, 16, "at least: one tile's state per block of the scan written"),
                Launch(
                    "cub::DeviceScanKernel<cub::AgentScanPolicy<128, 15, long>, long*, long*>",
                    "reduction",
                    1,
                ): Cost(None, 2400, 2400, "at least: the input read, the result written"),
            },
        ),
    ),
)
