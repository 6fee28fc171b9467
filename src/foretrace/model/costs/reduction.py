"""Reductions, sorting and scans.

Reductions: the input read once, one value per kept position written; one FLOP per input element.

The reduced dimensions come from `Concrete Inputs`; a full reduction is one that the call makes
without them. Where the values are not recorded (older traces) the output is unknown and only the
read counts. A reduction over many blocks may write and re-read partial results, which are not
counted.

Sorting, selection and scans: bytes only. The input is read once and each output written once.

A radix sort makes a pass per digit and a large scan two; passes beyond the first depend on the
algorithm and are not counted, which the note says. A scan in several kernels is one that moves
everything and others that prepare its state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from foretrace.model.costs._call import FLOATING, INTEGER, OpCall, Tensor, category, with_number
from foretrace.model.costs._cost import (
    Cost,
    CostKind,
    Launch,
    Price,
    at_least,
    cub_part,
    moved,
    table,
    takes,
)
from foretrace.model.costs.pointwise import pointwise


class _Reduction(Struct, frozen=True):
    """`dims` and `dtype`: places of the dimensions and of an explicit dtype; -1 for no such place.

    `types` is a rule per output: `same` as the input, `sum` (integers widen to 64 bits), `float`,
    or a type by name.
    """

    dims: int = 1
    types: tuple[str, ...] = ("same",)
    dtype: int = -1

    def __call__(self, call: OpCall) -> Cost:
        source = call.need(0)
        kept = _kept(call, source, self.dims)
        if kept is None:
            note = "the reduced dimensions are not recorded"
            return at_least([source], None, note, source.elements)
        given = call.scalar_type(self.dtype)
        outs = [Tensor((kept,), given or _type(rule, source.type)) for rule in self.types]
        return moved([source], outs, source.elements)


def _kept(call: OpCall, source: Tensor, place: int) -> int | None:
    """How many values remain; without the argument, or with `None` or `[]`, all are reduced."""
    if place < 0 or place >= len(call.types) or not call.types[place]:
        return 1
    if call.types[place] == "Scalar" and call.flag(place) is not None:  # var(self, unbiased)
        return 1
    dims = call.numbers(place)
    if dims is None:
        return None
    reduced = {dim % len(source.dims) for dim in dims} if source.dims else set()
    kept = (size for axis, size in enumerate(source.dims) if axis not in reduced)
    return math.prod(kept) if reduced else 1


def _type(rule: str, source: str) -> str:
    if rule == "same":
        return source
    if rule == "sum":
        return "long int" if category(source) <= INTEGER else source
    return with_number(source, FLOATING) if rule == "float" else rule


_MAXIMUM, _EXTREME = pointwise((0, 1)), _Reduction(types=("same", "long int"))


def _extreme(call: OpCall) -> Cost | None:
    """max, min: of two tensors, along a dimension with indices, or of everything."""
    if call.tensor(1) is not None:
        return _MAXIMUM(call)
    return _EXTREME(call) if len(call.types) > 1 else _Reduction()(call)


def _total(rule: str) -> Price:
    """sum (self, dtype) and, with more than two arguments, sum (self, dim, keepdim, dtype)."""
    whole, along = _Reduction(-1, (rule,), dtype=1), _Reduction(1, (rule,), dtype=3)
    return lambda call: whole(call) if len(call.types) <= 2 else along(call)


REDUCTION = CostKind(
    {
        **table("sum nansum prod", _total("sum")),
        **table("mean nanmean", _total("float")),
        **table("amax amin logsumexp", _Reduction()),
        **table("max min median", _extreme),
        **table("all any", _Reduction(types=("bool",))),
        **table("argmax argmin count_nonzero", _Reduction(types=("long int",))),
        **table("var std", _Reduction(types=("float",))),
        **table("var_mean std_mean", _Reduction(types=("float", "float"))),
        "aten::aminmax": _Reduction(types=("same", "same")),
        # (self, p or ord, dim, keepdim, dtype)
        **table("norm linalg_vector_norm", _Reduction(dims=2, types=("float",), dtype=4)),
    }
)


PASSES = "one pass; sorting makes several"


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

SORT = CostKind(
    prices={
        **table("sort msort", takes("in -> 0, 0 long int", PASSES)),
        "aten::argsort": takes("in -> 0 long int", PASSES),
        **table("topk kthvalue", _topk),
        **table(_SCANS, _scan),
        **table("searchsorted bucketize", _search),
    },
    shares={**table("sort argsort", _sort_share), **table(_SCANS, _scan_share)},
)


KINDS = (REDUCTION, SORT)
