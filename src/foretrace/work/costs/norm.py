"""Normalizations, softmax and losses: input, scale and shift read once, results written once.

How many operations a normalization makes per element depends on the kernel, so `flops` is None.
Statistics (mean, reciprocal deviation) are floats for 16-bit inputs, as CUDA keeps them. A backward
writes what its output mask says, or everything if the mask is not recorded. Batch norm in training
reads the running statistics and writes them back. Layer norms may take several kernels: the
statistics apart from the output; the gradient of the input apart from those of scale and shift.

A softmax whose row does not fit on chip reads it again, which is not counted. nll_loss reads one
score per target, not the whole matrix; its backward writes one value per target into a matrix that
another op has zeroed. Memory moves in 32-byte sectors, so the true traffic of such single values is
up to 16 times more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from foretrace.work.costs._call import OpCall, Tensor
from foretrace.work.costs._cost import Cost, CostKind, Launch, Price, at_least, moved, table, takes


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


KINDS = (NORM, SOFTMAX)
