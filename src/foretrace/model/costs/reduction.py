"""Reductions: the input read once, one value per kept position written; one FLOP per input element.

The reduced dimensions come from `Concrete Inputs`; a full reduction is one that the call makes
without them. Where the values are not recorded (older traces) the output is unknown and only the
read counts. A reduction over many blocks may write and re-read partial results, which are not
counted.
"""

from __future__ import annotations

import math

from msgspec import Struct

from foretrace.model.costs._call import OpCall, Tensor
from foretrace.model.costs._cost import Cost, CostKind, Price, at_least, moved, table
from foretrace.model.costs._types import FLOATING, INTEGER, category, with_number
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


KIND = CostKind(
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
