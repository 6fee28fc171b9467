"""Reductions: the input read once, one value per kept position written; one FLOP per input element.

The reduced dimensions come from `Concrete Inputs`; a full reduction is one that the call makes
without them. Where the values are not recorded (older traces) the output is unknown and only the
read is counted. A reduction over many blocks may write and re-read partial results; they are not
counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from foretrace.model.costs._call import Cost, Kind, OpCall, Price, Tensor, at_least, moved
from foretrace.model.costs._types import FLOATING, INTEGER, category, with_number


@dataclass(frozen=True, slots=True)
class _Reduction:
    """`dims`: the place of the dimensions; `types`: a rule per output; `dtype`: the place of an
    explicit dtype, or -1.

    Rules: `same` as the input, `sum` (integers widen to 64 bits), `float`, or a type by name.
    """

    dims: int = 1
    types: tuple[str, ...] = ("same",)
    dtype: int = -1

    def price(self, call: OpCall) -> Cost | None:
        source = call.tensor(0)
        if source is None:
            return None
        kept = _kept(call, source, self.dims)
        if kept is None:
            return at_least([source], "the reduced dimensions are not recorded", source.elements)
        given = call.scalar_type(self.dtype)
        outs = [Tensor((kept,), given or _type(rule, source.type)) for rule in self.types]
        return moved([source], outs, source.elements)


def _kept(call: OpCall, source: Tensor, place: int) -> int | None:
    """How many values remain. Without the argument, or with `None` or `[]` for it, everything is
    reduced.
    """
    if place >= len(call.types) or not call.types[place]:
        return 1
    # var(self, unbiased)
    if call.types[place] == "Scalar" and call.text(place) in ("True", "False"):
        return 1
    dims = call.numbers(place)
    if dims is None:
        return None
    reduced = {dim % len(source.dims) for dim in dims} if source.dims else set()
    kept = 1
    for axis, size in enumerate(source.dims):
        kept *= size if reduced and axis not in reduced else 1
    return kept


def _type(rule: str, source: str) -> str:
    if rule == "same":
        return source
    if rule == "sum":
        return "long int" if category(source) <= INTEGER else source
    return with_number(source, FLOATING) if rule == "float" else rule


def _extreme(call: OpCall) -> Cost | None:
    """max and min: of two tensors element by element, along a dimension with indices, or of
    everything.
    """
    from foretrace.model.costs.pointwise import KIND as pointwise

    if call.tensor(1) is not None:
        return pointwise.prices["aten::maximum"](call)
    if len(call.types) > 1:
        return _Reduction(types=("same", "long int")).price(call)
    return _Reduction().price(call)


def _norm(call: OpCall) -> Cost | None:
    """norm (self, p, dim, ...) and linalg_vector_norm (self, ord, dim, keepdim, dtype)."""
    return _Reduction(dims=2, types=("float",), dtype=4).price(call)


_SUM = _Reduction(types=("sum",), dtype=3).price
_MEAN = _Reduction(types=("float",), dtype=3).price
_SAME = _Reduction().price
_BOOL = _Reduction(types=("bool",)).price
_INDEX = _Reduction(types=("long int",)).price
_FLOAT = _Reduction(types=("float",)).price
_PAIR = _Reduction(types=("float", "float")).price


def _whole_or_dim(price: Price, dtype_only: Price) -> Price:
    """sum (self, dtype) and sum (self, dim, keepdim, dtype) share a name; two arguments are the
    former.
    """
    return lambda call: dtype_only(call) if len(call.types) <= 2 else price(call)


KIND = Kind(
    prices={
        **dict.fromkeys(
            ("aten::sum", "aten::nansum", "aten::prod"),
            _whole_or_dim(_SUM, _Reduction(dims=99, types=("sum",), dtype=1).price),
        ),
        **dict.fromkeys(
            ("aten::mean", "aten::nanmean"),
            _whole_or_dim(_MEAN, _Reduction(dims=99, types=("float",), dtype=1).price),
        ),
        **dict.fromkeys(("aten::amax", "aten::amin", "aten::logsumexp"), _SAME),
        **dict.fromkeys(("aten::max", "aten::min", "aten::median"), _extreme),
        **dict.fromkeys(("aten::all", "aten::any"), _BOOL),
        **dict.fromkeys(("aten::argmax", "aten::argmin", "aten::count_nonzero"), _INDEX),
        **dict.fromkeys(("aten::var", "aten::std"), _FLOAT),
        **dict.fromkeys(("aten::var_mean", "aten::std_mean"), _PAIR),
        "aten::aminmax": _Reduction(types=("same", "same")).price,
        "aten::norm": _norm,
        "aten::linalg_vector_norm": _norm,
    },
    examples=(
        (
            OpCall(
                "aten::mean",
                [[4, 1024, 1024], [], [], []],
                ["float", "ScalarList", "Scalar", ""],
                concrete=["", "[-1]", "True", ""],
            ),
            Cost(4_194_304, 16_777_216, 16_384),
        ),
        (
            OpCall(
                "aten::sum",
                [[4, 1024, 1024], [], [], []],
                ["c10::BFloat16", "ScalarList", "Scalar", ""],
                concrete=["", "[0, 1]", "True", ""],
            ),
            Cost(4_194_304, 8_388_608, 2048),
        ),
        (OpCall("aten::sum", [[10], []], ["int", ""], concrete=["", ""]), Cost(10, 40, 8)),
        (
            OpCall(
                "aten::argmax",
                [[32, 151936], [], []],
                ["float", "Scalar", "Scalar"],
                concrete=["", "-1", "False"],
            ),
            Cost(4_861_952, 19_447_808, 256),
        ),
        (
            OpCall(
                "aten::max",
                [[8, 4], [], []],
                ["float", "Scalar", "Scalar"],
                concrete=["", "1", "False"],
            ),
            Cost(32, 128, 8 * 4 + 8 * 8),
        ),
        (OpCall("aten::all", [[1, 141]], ["bool"], concrete=[""]), Cost(141, 141, 1)),
        (
            OpCall("aten::sum", [[4, 8], [], [], []], ["float", "ScalarList", "Scalar", ""]),
            Cost(32, 128, None, "at least: the reduced dimensions are not recorded", touched=128),
        ),
    ),
)
