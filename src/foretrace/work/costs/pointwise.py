"""Ops that move memory: elementwise, reductions, norms, losses, copies, indices, collectives.

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

Normalizations, softmax and losses: input, scale and shift read once, results written once.

How many operations a normalization makes per element depends on the kernel, so `flops` is None.
Statistics (mean, reciprocal deviation) are floats for 16-bit inputs, as CUDA keeps them. A backward
writes what its output mask says, or everything if the mask is not recorded. Batch norm in training
reads the running statistics and writes them back. Layer norms may take several kernels: the
statistics apart from the output; the gradient of the input apart from those of scale and shift.

A softmax whose row does not fit on chip reads it again, which is not counted. nll_loss reads one
score per target, not the whole matrix; its backward writes one value per target into a matrix that
another op has zeroed. Memory moves in 32-byte sectors, so the true traffic of such single values is
up to 16 times more.

`copy_` reads the source at the size it has in memory and writes all of `self`, which is not read. A
cast to a type that is not recorded counts as one to the same type. Only the kernel's name states
the element type of the tensors of `cat`: the caller supplies it as `list_type`.

Random numbers are made on chip, so only results move. Dropout writes a mask of one byte per element
beside its output.

A row that an index picks twice counts twice: which rows were picked depends on the data. The
backward of an embedding sorts the indices: the kernels that read them all, or the whole gradient,
are known by name. The adding variants count one FLOP per element.

A collective reads its message and writes its result once at least. A ring passes every chunk on as
it arrives, so a real algorithm moves a small multiple.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from foretrace.base.patterns import regex
from foretrace.work.costs._cost import (
    BOOL,
    CHUNK,
    FLOATING,
    INTEGER,
    UNSIZED,
    Cost,
    CostKind,
    Launch,
    OpCall,
    Price,
    Tensor,
    after,
    at_least,
    broadcast,
    category,
    cub_part,
    moved,
    moved_lists,
    promote,
    table,
    takes,
    total,
    unstated,
    whole_chunks,
    with_number,
)
from foretrace.work.kernel import Certainty

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


def _layer(statistics: int) -> Price:
    """native_layer_norm (input, shape, weight, bias, eps), _fused_rms_norm (input, shape, ...)."""

    def price(call: OpCall) -> Cost:
        source, shape, params = call.need(0), call.numbers(1), call.arguments(2)
        if not shape:
            note = "the normalized shape is not recorded, so statistics are left out"
            return at_least([source, *params, source.dense()], None, note)
        rows = source.elements // max(math.prod(shape), 1)
        kept = Tensor((statistics, rows), _accumulated(source.type))
        return moved([source, *params], [source.dense(), kept])

    return price


def _layer_backward(call: OpCall) -> Cost:
    """(grad_out, input, shape, statistics..., weight[, bias], output_mask)."""
    call.need(0)
    weight = _weight_at(call)
    reads = call.arguments()[: weight + 1]  # of a bias that follows, only the shape matters
    return moved(reads, _gradients(_mask(call), call.need(1), call.tensor(weight)))


def _weight_at(call: OpCall) -> int:
    return len(call.types) - (2 if call.name.endswith("rms_norm_backward") else 3)


def _mask(call: OpCall) -> tuple[int, ...]:
    return call.numbers(len(call.types) - 1) or (1, 1, 1)


def _layer_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    """native_layer_norm: `RowwiseMoments` makes the statistics, `LayerNormForward` the output."""
    if "RowwiseMoments" in kernel.name:
        return at_least([call.need(0)], None, "reads the input")
    return _LAYER_OUTPUT(call) if "LayerNormForward" in kernel.name else None


def _layer_backward_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    gradient, source, weight_at, mask = call.need(0), call.need(1), _weight_at(call), _mask(call)
    weight = call.tensor(weight_at)
    inputs = [gradient, source, *(call.tensor(index) for index in range(3, weight_at))]
    if "grad_input" in kernel.name or "ComputeGradInput" in kernel.name:
        note = "reads the inputs, writes the input's gradient"
        return at_least([*inputs, weight], [source.dense()], note)
    written = _gradients((0, *mask[1:]), source, weight)
    # the second step of ROCm and of old versions, over partial sums
    if "ComputeGradGammaBeta" in kernel.name:
        return at_least(None, written, "writes the gradients of scale and shift")
    if "GammaBeta" not in kernel.name or not any(mask[1:2]):
        return None
    return at_least(inputs, written, "reads the inputs, writes the gradients of scale and shift")


def _batch(call: OpCall) -> Cost | None:
    """(input, weight, bias, running_mean, running_var, training, ...): statistics per channel."""
    source = call.need(0)
    if len(source.dims) < 2:
        return None
    running = [call.tensor(3), call.tensor(4)]
    training = call.flag(5)
    if training is None:
        training = not call.name.endswith("no_training")
    saved = Tensor((2, source.dims[1]), _accumulated(source.type))
    writes = [source.dense(), *([saved, *running] if training else [])]
    return moved([source, call.tensor(1), call.tensor(2), *running], writes)


def _batch_backward(call: OpCall) -> Cost:
    """Gradient and input come first, in either order; then weight and statistics."""
    call.need(0)
    masks = (call.numbers(9), call.numbers(7))
    mask = next((mask for mask in masks if mask and len(mask) == 3), (1, 1, 1))
    return moved(call.arguments(), _gradients(mask, call.need(1), call.tensor(2)))


def _group(call: OpCall) -> Cost:
    """native_group_norm (input, weight, bias, N, C, HxW, group, eps): per sample and group."""
    source, samples, groups = call.need(0), call.integer(3), call.integer(6)
    reads = [source, call.tensor(1), call.tensor(2)]
    if samples is None or groups is None:
        note = "the number of groups is not recorded, so statistics are left out"
        return at_least([*reads, source.dense()], None, note)
    return moved(reads, [source.dense(), Tensor((2, samples, groups), source.type)])


def _group_backward(call: OpCall) -> Cost:
    """native_group_norm_backward (grad_out, input, mean, rstd, weight, N, C, HxW, group, mask)."""
    call.need(0)
    grads = _gradients(call.numbers(9) or (1, 1, 1), call.need(1), call.tensor(4))
    return moved(call.arguments(), grads)


def _gradients(mask: tuple[int, ...], source: Tensor, weight: Tensor | None) -> list[Tensor]:
    """Of the input, and of scale and shift, which have the weight's size."""
    pairs = zip(mask, (source, weight, weight), strict=False)
    return [each.dense() for wanted, each in pairs if wanted and each]


def _accumulated(type_name: str) -> str:
    return "float" if type_name in ("c10::Half", "c10::BFloat16") else type_name


_BATCH = """
    batch_norm native_batch_norm cudnn_batch_norm miopen_batch_norm _native_batch_norm_legit
    _native_batch_norm_legit_no_training _batch_norm_with_update"""
_BATCH_BACKWARD = """
    native_batch_norm_backward cudnn_batch_norm_backward batch_norm_backward
    miopen_batch_norm_backward"""

_OUTPUT = "reads input, scale and shift, writes the output"
_LAYER_OUTPUT = takes("in - in? in? -> 0", _OUTPUT, least=True)

NORM = CostKind(
    prices={
        "aten::native_layer_norm": _layer(statistics=2),
        **table("layer_norm rms_norm", _layer(statistics=0)),
        "aten::_fused_rms_norm": _layer(statistics=1),
        **table("native_layer_norm_backward _fused_rms_norm_backward", _layer_backward),
        **table(_BATCH, _batch),
        **table(_BATCH_BACKWARD, _batch_backward),
        "aten::native_group_norm": _group,
        "aten::native_group_norm_backward": _group_backward,
    },
    shares={
        "aten::native_layer_norm": _layer_share,
        **table("native_layer_norm_backward _fused_rms_norm_backward", _layer_backward_share),
    },
)


def _forward(call: OpCall) -> Cost:
    """_softmax, _log_softmax (self, dim, half_to_float)."""
    source = call.need(0)
    return moved([source], [source.dense("float" if call.flag(2) else None)])


def _nll(call: OpCall) -> Cost:
    """nll_loss_forward (self, target, weight, reduction, ignore_index): loss and total weight."""
    scores, target = call.need(0), call.need(1)
    picked, one = target.dense(scores.type), Tensor((), scores.type)
    loss = picked if call.integer(3) == 0 else one
    return moved([picked, target, call.tensor(2)], [loss, one])


def _nll_backward(call: OpCall) -> Cost:
    """nll_loss_backward (grad_output, self, target, weight, reduction, ..., total_weight)."""
    gradient, scores, target = call.need(0), call.need(1), call.need(2)
    reads = [gradient, target, call.tensor(3), call.tensor(6)]
    return moved(reads, [target.dense(scores.type)])


SOFTMAX = CostKind(
    {
        **table("_softmax _log_softmax _safe_softmax softmax log_softmax", _forward),
        # (grad_output, output, dim, input_dtype)
        **table("_softmax_backward_data _log_softmax_backward_data", takes("in in -> 1 @3")),
        "aten::_masked_softmax": takes("in in? -> 0"),
        **table("nll_loss_forward nll_loss2d_forward", _nll),
        **table("nll_loss_backward nll_loss2d_backward", _nll_backward),
    }
)


def _arange(call: OpCall) -> Cost | None:
    """arange (start, end, step, out): `out` is still empty when the call is recorded."""
    start, end, step, out = call.number(0), call.number(1), call.number(2), call.need(3)
    if start is None or end is None or not step or not math.isfinite((end - start) / step):
        return None
    return moved([], [Tensor((max(math.ceil((end - start) / step), 0),), out.type)], 0)


def _join(call: OpCall) -> Cost | None:
    """cat, stack, _chunk_cat (tensors, ...): every element read once and written once, densely."""
    tensors = call.tensors(0)
    if tensors is None:
        return UNSIZED if "TensorList" in call.types[:1] else None
    return moved_lists(call, tensors, [tensor.dense() for tensor in tensors], 0)


def _pad(call: OpCall) -> Cost | None:
    """constant_pad_nd, reflection_pad, replication_pad (self, pad): the last dimension first."""
    source, pads = call.need(0), call.numbers(1)
    if pads is None or len(pads) > 2 * len(source.dims):
        return None
    dims = list(source.dims)
    for place, extra in enumerate(pads):
        dims[-1 - place // 2] += extra
    return moved([source], [Tensor(tuple(max(dim, 0) for dim in dims), source.type)], 0)


_DENSE = """
    clone contiguous flip roll channel_shuffle split_with_sizes_copy split_copy view_copy rot90"""
_PADS = """
    constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d
    replication_pad1d replication_pad2d replication_pad3d"""

COPY = CostKind(
    {
        "aten::copy_": takes("- in -> 0", flops=0),
        "aten::_to_copy": takes("in -> 0 @1", flops=0),
        **table(_DENSE, takes("in -> 0", flops=0)),
        **table("fill_ zero_", takes("out", flops=0)),
        "aten::arange": _arange,
        **table("cat stack _chunk_cat", _join),
        **table(_PADS, _pad),
    }
)


def _multinomial(call: OpCall) -> Cost | None:
    """multinomial (self, num_samples, ...): `num_samples` 64-bit indices per row."""
    source, samples = call.need(0), call.integer(1)
    if samples is None or not source.dims:
        return None
    return moved([source], [Tensor((*source.dims[:-1], samples), "long int")])


_IN_PLACE = "normal_ uniform_ random_ exponential_ geometric_ log_normal_ cauchy_ bernoulli_"

RANDOM = CostKind(
    {
        **table(_IN_PLACE, takes("out in?")),
        **table("bernoulli poisson", takes("in -> 0")),
        **table("native_dropout _fused_dropout", takes("in -> 0, 0 bool", per=0)),
        "aten::multinomial": _multinomial,
    }
)


def _select(call: OpCall) -> Cost:
    """index_select (self, dim, index): `self` with dimension `dim` as long as the index."""
    source, index, dim = call.need(0), call.need(2), call.integer(1)
    if dim is None or not source.dims:
        return at_least([index], None, "the dimension is not recorded")
    dims = list(source.dims)
    dims[dim % len(dims)] = index.elements
    picked = Tensor(tuple(dims), source.type)
    return moved([picked, index], [picked], 0)


def _embedding(call: OpCall) -> Cost:
    """embedding (weight, indices, ...): a row per index."""
    weight, index = call.need(0), call.need(1)
    picked = Tensor((*index.dims, *weight.dims[1:]), weight.type)
    return moved([picked, index], [picked], 0)


def _embedding_backward_share(
    call: OpCall, kernel: Launch, kernels: Sequence[Launch]
) -> Cost | None:
    gradient, index = call.need(0), call.need(1)
    if "UniqueByKeySweep" in kernel.name:
        return at_least([index.dense()], None, "reads the sorted indices")
    if "compute_grad_weight" in kernel.name:
        note = "reads the gradient and the places of its rows"
        return at_least([gradient, index.dense()], None, note)
    return cub_part(kernel, index.elements)


def _gather(call: OpCall) -> Cost:
    """gather (self, dim, index, ...): one element per index."""
    source, index = call.need(0), call.need(2)
    picked = index.dense(source.type)
    return moved([picked, index], [picked], 0)


def _written(
    call: OpCall, target: Tensor, picked: Tensor, reads: list[Tensor | None], adds: bool
) -> Cost:
    """In place it writes the picked elements, otherwise a whole copy too."""
    copy = None if call.name.endswith("_") else target
    reads = [*reads, picked if adds else None, copy]
    return moved(reads, [picked, copy], picked.elements if adds else 0)


def _scatter(adds: bool) -> Price:
    """scatter (self, dim, index, src or value)."""

    def price(call: OpCall) -> Cost:
        target, index, source = call.need(0), call.need(2), call.tensor(3)
        values = index.dense(source.type) if source else None
        return _written(call, target, index.dense(target.type), [index, values], adds)

    return price


def _rows(adds: bool) -> Price:
    """index_add, index_copy, index_fill (self, dim, index, source or value)."""

    def price(call: OpCall) -> Cost | None:
        target, index, source, dim = call.need(0), call.need(2), call.tensor(3), call.integer(1)
        if dim is None or not target.dims:
            return None
        axis = dim % len(target.dims)
        across = math.prod(target.dims[:axis] + target.dims[axis + 1 :])
        picked = Tensor((index.elements, across), target.type)
        values = source if source and source.dims else None
        return _written(call, target, picked, [index, values], adds)

    return price


ROWS = "how many distinct rows are written depends on the data, and so does the sorting"
INDICES = "the index tensors are not recorded, and broadcast values are written more often"
RESULT = "the size of the result depends on the data"
_DATA_DEPENDENT = "nonzero masked_select _unique _unique2 unique_consecutive unique_dim"

INDEXING = CostKind(
    prices={
        "aten::index_select": _select,
        "aten::embedding": _embedding,
        **table(
            "embedding_dense_backward embedding_backward", takes("in in?", ROWS, per=0, least=True)
        ),
        **table("gather take_along_dim", _gather),
        **table("scatter scatter_", _scatter(adds=False)),
        **table("scatter_add scatter_add_ scatter_reduce scatter_reduce_", _scatter(adds=True)),
        **table("index_copy index_copy_ index_fill index_fill_", _rows(adds=False)),
        **table("index_add index_add_", _rows(adds=True)),
        **table("index_put index_put_ _index_put_impl_", takes("- - in", INDICES, least=True)),
        **table("index _unsafe_index", unstated("how many elements are picked is not recorded")),
        **table(_DATA_DEPENDENT, takes("in in?", RESULT, least=True)),
    },
    shares={"aten::embedding_dense_backward": _embedding_backward_share},
)


NOTE = "the message in and out once; the algorithm moves more"
SENT = "the message in once; its result is not recorded, and the algorithm moves more"

# how the profiler writes the type of a message: our name for it, and the bytes of an element
ELEMENT_TYPES = {
    "BFloat16": ("c10::BFloat16", 2), "Half": ("c10::Half", 2), "Float": ("float", 4),
    "Double": ("double", 8), "Int": ("int", 4), "Long": ("long int", 8), "Short": ("short int", 2),
    "Byte": ("unsigned char", 1), "Char": ("signed char", 1), "Bool": ("bool", 1),
    "Float8_e4m3fn": ("c10::Float8_e4m3fn", 1), "Float8_e5m2": ("c10::Float8_e5m2", 1),
    "Float8_e4m3fnuz": ("c10::Float8_e4m3fnuz", 1), "Float8_e5m2fnuz": ("c10::Float8_e5m2fnuz", 1),
}  # fmt: skip


def _recorded(call: OpCall) -> Cost | None:
    """record_param_comms, with `In msg nelems`, `Out msg nelems` and `dtype`.

    Old traces have none of the three, but the tensor that goes in.
    """
    _, size = ELEMENT_TYPES.get(str(call.kwargs.get("dtype")), ("", None))
    read, written = call.kwargs.get("In msg nelems"), call.kwargs.get("Out msg nelems")
    if size is not None and isinstance(read, int) and isinstance(written, int):
        return Cost(None, read * size, written * size, NOTE, Certainty.AT_LEAST)
    message = call.tensor(0)
    return at_least([message], None, SENT) if message else None


_BASES = "_allgather_base_ _reduce_scatter_base_ alltoall_base_"
_REDUCED_IN_PLACE = "multimem_all_reduce_ two_shot_all_reduce_"

COMMS = CostKind(
    {
        "record_param_comms": _recorded,
        **table(_BASES, takes("out in", NOTE, least=True), "c10d::"),
        "_C_custom_ar::all_reduce": takes("- in out", NOTE, least=True),
        **table(_REDUCED_IN_PLACE, takes("both", NOTE, least=True), "symm_mem::"),
    }
)
KINDS = (
    POINTWISE,
    FOREACH,
    OPTIMIZER,
    REDUCTION,
    SORT,
    NORM,
    SOFTMAX,
    COPY,
    RANDOM,
    INDEXING,
    COMMS,
)
