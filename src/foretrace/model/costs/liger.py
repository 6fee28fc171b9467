"""Liger kernels, recorded under the name of their autograd function. FLOP are not counted.

A backward's record shows the incoming gradients alone; what the forward saved has the shapes that
the function implies (for gelu-mul and silu-mul: both inputs, read, and overwritten by their
gradients). `ensure_contiguous` copies a strided input first, in a kernel of its own.
"""

from __future__ import annotations

from foretrace.model.costs._call import OpCall, Tensor
from foretrace.model.costs._cost import Cost, CostKind, Price, at_least, moved


def _gate(call: OpCall) -> Cost:
    """LigerGELUMulFunction, LigerSiLUMulFunction (a, b): one output of their shape."""
    return moved([call.need(0), call.need(1)], [call.need(0).dense()])


def _gate_backward(call: OpCall) -> Cost:
    """(dc): reads the gradient and both saved inputs, writes both gradients."""
    gradient = call.need(0)
    return moved([gradient] * 3, [gradient.dense()] * 2)


def _rows(statistics: int) -> Price:
    """LigerRMSNormFunction, LigerLayerNormFunction (X, W, ...): output and statistics per row."""

    def price(call: OpCall) -> Cost | None:
        source = call.need(0)
        if not source.dims:
            return None
        kept = Tensor((statistics, *source.dims[:-1]), "float")
        params = [each for index in (1, 2) if (each := call.tensor(index)) and each.dims]
        return moved([source, *params], [source.dense(), kept])

    return price


def _rms_norm_backward(call: OpCall) -> Cost:
    """(dY): reads the gradient and the saved input, writes the input's gradient."""
    gradient = call.need(0)
    note = "leaves out the scale, its partial gradients and the statistics"
    return at_least([gradient] * 2, [gradient.dense()], note)


def _rope(call: OpCall) -> Cost:
    """LigerRopeFunction (q, k, cos, sin): q and k are rotated in place."""
    rotated = [call.need(0), call.need(1)]
    return moved([*rotated, call.tensor(2), call.tensor(3)], rotated)


def _cross_entropy(call: OpCall) -> Cost:
    """LigerCrossEntropyFunction (input, target, ...)."""
    note = "logits are overwritten by their gradient only when one is needed"
    return at_least([call.need(0), call.need(1)], None, note)


KIND = CostKind(
    {
        "LigerGELUMulFunction": _gate,
        "LigerSiLUMulFunction": _gate,
        "LigerGELUMulFunctionBackward": _gate_backward,
        "LigerSiLUMulFunctionBackward": _gate_backward,
        "LigerRMSNormFunction": _rows(statistics=1),
        "LigerRMSNormFunctionBackward": _rms_norm_backward,
        "LigerLayerNormFunction": _rows(statistics=2),
        "LigerRopeFunction": _rope,
        "LigerCrossEntropyFunction": _cross_entropy,
    }
)
