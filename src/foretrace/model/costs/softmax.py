"""Softmax and the losses on top of it. FLOP are not stated, as for normalizations.

softmax: the input read once, the output written once (a kernel whose row does not fit on chip reads
it again). nll_loss reads one score per target, not the whole matrix; its backward writes one value
per target into a matrix that another op has zeroed. Memory moves in 32-byte sectors, so the true
traffic of such single values is up to 16 times more.
"""

from __future__ import annotations

from foretrace.model.costs._call import Cost, Kind, OpCall, Tensor, moved


def _forward(call: OpCall) -> Cost | None:
    """_softmax, _log_softmax (self, dim, half_to_float)."""
    source = call.tensor(0)
    if source is None:
        return None
    return moved([source], [Tensor(source.dims, "float" if call.flag(2) else source.type)])


def _backward(call: OpCall) -> Cost | None:
    """_softmax_backward_data (grad_output, output, dim, input_dtype)."""
    gradient, output = call.tensor(0), call.tensor(1)
    if gradient is None or output is None:
        return None
    return moved([gradient, output], [Tensor(output.dims, call.scalar_type(3) or output.type)])


def _masked(call: OpCall) -> Cost | None:
    """_masked_softmax (self, mask, dim, mask_type)."""
    source = call.tensor(0)
    return (
        None
        if source is None
        else moved([source, call.tensor(1)], [Tensor(source.dims, source.type)])
    )


def _nll(call: OpCall) -> Cost | None:
    """nll_loss_forward (self, target, weight, reduction, ignore_index): the loss and the total
    weight.
    """
    scores, target, weight, reduction = (
        call.tensor(0),
        call.tensor(1),
        call.tensor(2),
        call.integer(3),
    )
    if scores is None or target is None:
        return None
    picked = Tensor(target.dims, scores.type)
    loss = picked if reduction == 0 else Tensor((), scores.type)
    return moved([picked, target, weight], [loss, Tensor((), scores.type)])


def _nll_backward(call: OpCall) -> Cost | None:
    """nll_loss_backward (grad_output, self, target, weight, reduction, ignore_index, total_weight[,
    grad_input]).
    """
    gradient, scores, target = (call.tensor(index) for index in range(3))
    if gradient is None or scores is None or target is None:
        return None
    return moved(
        [gradient, target, call.tensor(3), call.tensor(6)], [Tensor(target.dims, scores.type)]
    )


KIND = Kind(
    prices={
        **dict.fromkeys(
            (
                "aten::_softmax",
                "aten::_log_softmax",
                "aten::_safe_softmax",
                "aten::softmax",
                "aten::log_softmax",
            ),
            _forward,
        ),
        **dict.fromkeys(
            ("aten::_softmax_backward_data", "aten::_log_softmax_backward_data"), _backward
        ),
        "aten::_masked_softmax": _masked,
        "aten::nll_loss_forward": _nll,
        "aten::nll_loss2d_forward": _nll,
        "aten::nll_loss_backward": _nll_backward,
        "aten::nll_loss2d_backward": _nll_backward,
    },
    examples=(
        (
            OpCall(
                "aten::_log_softmax",
                [[4096, 32000], [], []],
                ["float", "Scalar", "Scalar"],
                concrete=["", "1", "False"],
            ),
            Cost(None, 524_288_000, 524_288_000),
        ),
        (
            OpCall(
                "aten::_softmax",
                [[8, 10], [], []],
                ["c10::Half", "Scalar", "Scalar"],
                concrete=["", "1", "True"],
            ),
            Cost(None, 160, 320),
        ),
        (
            OpCall(
                "aten::_softmax_backward_data",
                [[8, 10], [8, 10], [], []],
                ["float", "float", "Scalar", "Scalar"],
                concrete=["", "", "1", "5"],
            ),
            Cost(None, 640, 160),
        ),
        (
            OpCall(
                "aten::nll_loss_forward",
                [[4096, 32000], [4096], [], [], []],
                ["float", "long int", "", "Scalar", "Scalar"],
                concrete=["", "", "", "1", "-100"],
            ),
            Cost(None, 4096 * 12, 8),
        ),
    ),
)
