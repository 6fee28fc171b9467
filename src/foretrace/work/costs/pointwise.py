"""Elementwise ops, lists of tensors, optimizers, reductions, sorts and scans.

`docs/costs.md` has the conventions. In place (`add_`) reads `self` too; with `out` the result has
the type of `out`. The result's type follows PyTorch's promotion. A 0-d operand beside larger ones
is most often a Python number (`x * 0.5` shows a 0-d double): it decides the type as a number would,
and its 8 bytes are not counted. Optimizers call `addcmul_` with one gradient as both factors, so
equal factors count once there, as a lower bound.

Of `_foreach_*` every list is read and the first is written (or a new one of its sizes). `zero` and
`fill` read nothing, `copy` reads the second list, `norm` and `max` write one value per tensor.
A trace does not state the element type of lists (taken from the kernel's name where the caller
supplies `list_type`) and, beyond 30 tensors, their sizes. Of the kernels of a fused optimizer the
chunks count that are whole for certain: a block has one chunk of every list.

The reduced dimensions come from `Concrete Inputs`; without them the output is unknown. Partial
results of a reduction over many blocks are not counted, nor are the passes of a sort beyond the
first. A scan in several kernels is one that moves everything and others that prepare its state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from foretrace.base.patterns import regex
from foretrace.work.costs._call import (
    BOOL,
    FLOATING,
    INTEGER,
    OpCall,
    Tensor,
    broadcast,
    category,
    promote,
    total,
    with_number,
)
from foretrace.work.costs._cost import (
    CHUNK,
    UNSIZED,
    Cost,
    CostKind,
    Launch,
    Price,
    after,
    at_least,
    cub_part,
    moved,
    moved_lists,
    table,
    takes,
    whole_chunks,
)
from foretrace.work.traffic import Certainty

ARITHMETIC, SELECTION = 1, 0  # FLOP per result element

# Unary: the type stays; integers give float; the result is bool.
_SAME = """
    abs neg negative positive sign sgn ceil floor round trunc frac square relu relu6 gelu silu mish
    elu celu selu leaky_relu hardtanh hardswish hardsigmoid hardshrink softshrink softplus
    log_sigmoid threshold conj_physical nan_to_num bitwise_not"""
_TO_FLOAT = """
    acos acosh asin asinh atan atanh cos cosh sin sinh sinc tan tanh sigmoid logit exp exp2 expm1
    log log2 log10 log1p sqrt rsqrt reciprocal erf erfc erfinv lgamma mvlgamma digamma polygamma
    angle i0 deg2rad rad2deg special_entr special_erfcx special_i0e special_i1 special_i1e
    special_log_ndtr special_ndtri"""
_TO_BOOL = "isnan isinf isfinite isposinf isneginf signbit logical_not"
# Binary and ternary.
_BINARY = """
    add sub rsub mul multiply subtract remainder fmod pow maximum minimum fmax fmin floor_divide
    hypot copysign nextafter heaviside gcd lcm ldexp logaddexp logaddexp2 bitwise_left_shift
    bitwise_right_shift __lshift__ __rshift__ _prelu_kernel"""
_BINARY_TO_FLOAT = (
    "div divide true_divide atan2 xlogy special_xlog1py special_zeta igamma igammac float_power"
)
_LOGIC = "bitwise_and bitwise_or bitwise_xor __and__ __or__ __xor__"
_COMPARE = "eq ne lt le gt ge logical_and logical_or logical_xor"
# Of a gradient (or prediction) and the saved input (or target).
_PAIRS = """
    gelu_backward silu_backward sigmoid_backward tanh_backward threshold_backward
    leaky_relu_backward hardtanh_backward hardswish_backward hardsigmoid_backward
    hardshrink_backward softshrink_backward softplus_backward logit_backward log_sigmoid_backward
    mish_backward native_dropout_backward mse_loss l1_loss smooth_l1_loss huber_loss
    soft_margin_loss"""
_TRIPLES = "mse_loss_backward smooth_l1_loss_backward huber_loss_backward binary_cross_entropy"


def pointwise(
    reads: tuple[int, ...],
    rule: str = "promote",
    flop: int = ARITHMETIC,
    typed: tuple[int, ...] = (),
) -> Price:
    """A price for operands at `reads`; `typed` are those that decide the type, if not all do."""

    def price(call: OpCall) -> Cost | None:
        operands = [call.tensor(index) for index in reads]
        present = [operand for operand in operands if operand is not None]
        dims = broadcast(*(operand.dims for operand in present))
        if not present or dims is None:
            return None
        type_name = _result_type(call, typed or reads, rule)
        if call.name.endswith("_") and not call.name.endswith("__") and operands[0] is not None:
            dims, type_name = operands[0].dims, operands[0].type
        given = [out for out in call.arguments(max(reads) + 1) if out]
        out = Tensor(dims, given[-1].type if given else type_name)
        counted = [each for each in present if each.dims or not dims]
        return moved(counted, [out], flop * out.elements)

    return price


def _result_type(call: OpCall, places: tuple[int, ...], rule: str) -> str:
    if rule == "bool":
        return "bool"
    operands = [tensor for index in places if (tensor := call.tensor(index))]
    wide = promote(operand.type for operand in operands if operand.dims)
    numbers = [category(operand.type) for operand in operands if not operand.dims]
    numbers += [_number_category(text) for index in places if (text := call.text(index))]
    wide = wide or promote(operand.type for operand in operands)
    result = with_number(wide, max(numbers, default=0))
    return with_number(result, FLOATING) if rule == "float" else result


def _number_category(text: str) -> int:
    if text in ("True", "False"):
        return BOOL
    return INTEGER if text.lstrip("+-").isdigit() else FLOATING


def _addcmul(call: OpCall) -> Cost | None:
    """addcmul (self, tensor1, tensor2): equal factors may be one tensor."""
    whole, factor = pointwise((0, 1, 2))(call), call.tensor(1)
    if whole is None or factor is None or factor != call.tensor(2) or not factor.dims:
        return whole
    read, once = whole.bytes_read, factor.bytes
    if read is None or once is None:
        return whole
    note = "the factors may be one tensor, which is read once"
    return replace(whole, bytes_read=read - once, note=note, certainty=Certainty.AT_LEAST)


def _glu(call: OpCall) -> Cost:
    """glu (self, dim): the output has half the size."""
    whole = call.need(0)
    half = Tensor((whole.elements // 2,), whole.type)
    return moved([whole], [half], half.elements)


def _both(names: str, price: Price) -> dict[str, Price]:
    """Every op and its in-place twin; an op without one is never recorded under that name."""
    return table(names, price) | table(" ".join(f"{name}_" for name in names.split()), price)


POINTWISE = CostKind(
    {
        **_both(_SAME, pointwise((0,))),
        **_both(_TO_FLOAT, pointwise((0,), "float")),
        **_both(_TO_BOOL, pointwise((0,), "bool", SELECTION)),
        **_both(_BINARY, pointwise((0, 1))),
        **_both(_BINARY_TO_FLOAT, pointwise((0, 1), "float")),
        **_both(_LOGIC, pointwise((0, 1), flop=SELECTION)),
        **_both(_COMPARE, pointwise((0, 1), "bool", SELECTION)),
        **_both("addcdiv lerp clamp clip clamp_min clamp_max", pointwise((0, 1, 2))),
        **_both("addcmul", _addcmul),
        **_both("masked_fill", pointwise((0, 1), flop=SELECTION, typed=(0,))),
        **_both("tril triu", pointwise((0,), flop=SELECTION)),
        **_both(_PAIRS, pointwise((0, 1))),
        **_both(_TRIPLES, pointwise((0, 1, 2))),
        "aten::where": pointwise((0, 1, 2), flop=SELECTION, typed=(1, 2)),
        "aten::elu_backward": pointwise((0, 5)),
        "aten::glu": _glu,
        "aten::glu_backward": takes("in in -> 1", per=1),
    }
)


def _foreach(call: OpCall) -> Cost | None:
    op = call.name.removeprefix("aten::_foreach_").rstrip("_")
    lists = call.tensor_lists()
    if lists is None:
        return UNSIZED if "TensorList" in call.types else None
    reads = {"zero": [], "fill": [], "copy": lists[1:2]}.get(op, lists)
    first = [tensor.dense() for tensor in lists[0]]
    writes = [Tensor((), tensor.type) for tensor in first] if op in ("norm", "max") else first
    flops = 0 if op in ("zero", "fill", "copy") else sum(tensor.elements for tensor in first)
    return moved_lists(call, (tensor for each in reads for tensor in each), writes, flops)


def _unscale(call: OpCall) -> Cost:
    """_amp_foreach_non_finite_check_and_unscale_ (list, found_inf, inv_scale): in place."""
    lists = call.tensor_lists()
    if lists is None:
        return UNSIZED
    return moved_lists(call, lists[0], lists[0], sum(tensor.elements for tensor in lists[0]))


FOREACH = CostKind(
    {"aten::_foreach_*": _foreach, "aten::_amp_foreach_non_finite_check_and_unscale_": _unscale}
)


# `FusedAdamMathFunctor<T, lists, ...>`: parameters, gradients and states, all of one type.
_FUNCTOR = regex(r"Fused\w{1,60}?MathFunctor<([\w: ]{1,60}), (\d{1,9})")


def _step(written: tuple[int, ...], read_only: tuple[int, ...]) -> Price:
    """Places of the lists that are updated in place, and of gradients and step counts."""

    def price(call: OpCall) -> Cost:
        if call.tensors(0) is None:
            return UNSIZED
        updated = [tensor for place in written for tensor in call.tensors(place) or ()]
        others = [tensor for place in read_only for tensor in call.tensors(place) or ()]
        return moved_lists(call, [*updated, *others], updated)

    return price


def _share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    """Chunks that are whole. Gradients are written too if the call has a scale for them."""
    found = after(kernel.name, "multi_tensor_apply_kernel<", _FUNCTOR)
    if found is None:
        return None
    lists = int(found[2])
    chunks, note = whole_chunks(kernel, kernels, lists)
    each = total([Tensor((chunks, CHUNK), found[1])])
    if not each:
        return Cost(None, None, None, note)
    writes = lists if any(call.arguments()) else lists - 1
    return Cost(None, lists * each, writes * each, note, Certainty.AT_LEAST)


# (self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, ...); without amsgrad the
# fifth list is empty.
_ADAM = _step(written=(0, 2, 3, 4), read_only=(1, 5))
_PRICES = {
    "aten::_fused_adam_": _ADAM,
    "aten::_fused_adamw_": _ADAM,
    "aten::_fused_sgd_": _step(written=(0, 2), read_only=(1,)),
    "aten::_fused_adagrad_": _step(written=(0, 2), read_only=(1, 3)),
}

OPTIMIZER = CostKind(_PRICES, dict.fromkeys(_PRICES, _share))


def _reduced(*rules: str, dims: int = 1, dtype: int = -1) -> Price:
    """A rule per output: `same` as the input, `sum` (integers widen), `float`, or a type by name.

    `dims` and `dtype` are the places of the dimensions and of an explicit dtype; -1 for no such.
    """

    def price(call: OpCall) -> Cost:
        source = call.need(0)
        kept = _kept(call, source, dims)
        if kept is None:
            note = "the reduced dimensions are not recorded"
            return at_least([source], None, note, source.elements)
        given = call.scalar_type(dtype)
        outs = [Tensor((kept,), given or _type(rule, source.type)) for rule in rules]
        return moved([source], outs, source.elements)

    return price


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


def _extreme(call: OpCall) -> Cost | None:
    """max, min: of two tensors, along a dimension with indices, or of everything."""
    if call.tensor(1) is not None:
        return pointwise((0, 1))(call)
    rules = ("same", "long int") if len(call.types) > 1 else ("same",)
    return _reduced(*rules)(call)


def _total(rule: str) -> Price:
    """sum (self, dtype) and, with more than two arguments, sum (self, dim, keepdim, dtype)."""
    whole, along = _reduced(rule, dims=-1, dtype=1), _reduced(rule, dtype=3)
    return lambda call: whole(call) if len(call.types) <= 2 else along(call)


REDUCTION = CostKind(
    {
        **table("sum nansum prod", _total("sum")),
        **table("mean nanmean", _total("float")),
        **table("amax amin logsumexp", _reduced("same")),
        **table("max min median", _extreme),
        **table("all any", _reduced("bool")),
        **table("argmax argmin count_nonzero", _reduced("long int")),
        **table("var std", _reduced("float")),
        **table("var_mean std_mean", _reduced("float", "float")),
        "aten::aminmax": _reduced("same", "same"),
        # (self, p or ord, dim, keepdim, dtype)
        **table("norm linalg_vector_norm", _reduced("float", dims=2, dtype=4)),
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


def _scanned(call: OpCall) -> tuple[list[Tensor], list[Tensor]]:
    """Input and outputs of cumsum, cumprod (self, dim, dtype): integers widen to 64 bits.

    cummax and cummin add indices. Old traces record the empty place of a new result before `self`.
    """
    place = 1 if list(call.types[:1]) == [""] else 0
    source = call.need(place)
    if call.name in ("aten::cummax", "aten::cummin"):
        return [source], [source.dense(), source.dense("long int")]
    if call.name.endswith("_"):
        return [source], [source.dense()]
    widened = "long int" if category(source.type) <= INTEGER else source.type
    return [source], [source.dense(call.scalar_type(place + 2) or widened)]


def _sort_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    """Every pass of a sort of one dimension handles every item."""
    source = call.tensor(0)
    return cub_part(kernel, source.elements if source and len(source.dims) == 1 else None)


def _scan_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    scans = sum("DeviceScanKernel" in each.name for each in kernels)
    if "DeviceScanKernel" not in kernel.name or scans > 1:
        return None
    return at_least(*_scanned(call), "reads the input, writes the result")


_SCANS = "cumsum cumsum_ cumprod cumprod_ logcumsumexp cummax cummin"

SORT = CostKind(
    prices={
        **table("sort msort", takes("in -> 0, 0 long int", PASSES)),
        "aten::argsort": takes("in -> 0 long int", PASSES),
        **table("topk kthvalue", _topk),
        **table(_SCANS, lambda call: moved(*_scanned(call))),
        "aten::searchsorted": takes("in in -> 1 long int"),  # a 64-bit place per value
        "aten::bucketize": takes("in in -> 0 long int"),
    },
    shares={**table("sort argsort", _sort_share), **table(_SCANS, _scan_share)},
)


KINDS = (POINTWISE, FOREACH, OPTIMIZER, REDUCTION, SORT)
