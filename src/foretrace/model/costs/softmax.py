"""Softmax and the losses on top of it. FLOP are not counted, as for normalizations.

softmax: the input read once, the output written once (a kernel whose row does not fit on chip reads
it again). nll_loss reads one score per target, not the whole matrix; its backward writes one value
per target into a matrix that another op has zeroed. Memory moves in 32-byte sectors, so the true
traffic of such single values is up to 16 times more.
"""

from __future__ import annotations

from foretrace.model.costs._call import OpCall, Tensor
from foretrace.model.costs._cost import Cost, CostKind, moved, table


def _forward(call: OpCall) -> Cost:
    """_softmax, _log_softmax (self, dim, half_to_float)."""
    source = call.need(0)
    return moved([source], [source.dense("float" if call.flag(2) else None)])


def _backward(call: OpCall) -> Cost:
    """_softmax_backward_data (grad_output, output, dim, input_dtype)."""
    gradient, output = call.need(0), call.need(1)
    return moved([gradient, output], [output.dense(call.scalar_type(3))])


def _masked(call: OpCall) -> Cost:
    """_masked_softmax (self, mask, dim, mask_type)."""
    return moved([call.need(0), call.tensor(1)], [call.need(0).dense()])


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


KIND = CostKind(
    {
        **table("_softmax _log_softmax _safe_softmax softmax log_softmax", _forward),
        **table("_softmax_backward_data _log_softmax_backward_data", _backward),
        "aten::_masked_softmax": _masked,
        **table("nll_loss_forward nll_loss2d_forward", _nll),
        **table("nll_loss_backward nll_loss2d_backward", _nll_backward),
    }
)
