"""Liger kernels, recorded under the name of their autograd function. FLOP are not stated.

A backward's record shows the incoming gradients alone; what the forward saved has the shapes that
the function implies (for gelu-mul and silu-mul: both inputs, read, and overwritten by their
gradients). `ensure_contiguous` copies a strided input first, in a kernel of its own.
"""

from __future__ import annotations

from foretrace.model.costs._call import Cost, Kind, OpCall, Tensor, at_least, moved


def _gate(call: OpCall) -> Cost | None:
    """LigerGELUMulFunction, LigerSiLUMulFunction (a, b): one output of their shape."""
    left, right = call.tensor(0), call.tensor(1)
    if left is None or right is None:
        return None
    return moved([left, right], [Tensor(left.dims, left.type)])


def _gate_backward(call: OpCall) -> Cost | None:
    """(dc): reads the gradient and both saved inputs, writes both gradients."""
    gradient = call.tensor(0)
    if gradient is None:
        return None
    return moved([gradient] * 3, [Tensor(gradient.dims, gradient.type)] * 2)


def _rms_norm(call: OpCall) -> Cost | None:
    """LigerRMSNormFunction (X, W, eps, ...): output, and one reciprocal deviation per row, a float
    or X's type.
    """
    return _rows(call, statistics=1)


def _layer_norm(call: OpCall) -> Cost | None:
    """LigerLayerNormFunction (X, W, B, eps): output, mean and reciprocal deviation per row."""
    return _rows(call, statistics=2)


def _rows(call: OpCall, statistics: int) -> Cost | None:
    source = call.tensor(0)
    if source is None or not source.dims:
        return None
    kept = Tensor((statistics, *source.dims[:-1]), "float")
    params = [each for index in (1, 2) if (each := call.tensor(index)) and each.dims]
    return moved([source, *params], [Tensor(source.dims, source.type), kept])


def _rms_norm_backward(call: OpCall) -> Cost | None:
    """(dY): reads the gradient and the saved input, writes the input's gradient."""
    gradient = call.tensor(0)
    if gradient is None:
        return None
    note = "at least: the scale, its partial gradients and the statistics are left out"
    return moved([gradient] * 2, [Tensor(gradient.dims, gradient.type)], note=note)


def _rope(call: OpCall) -> Cost | None:
    """LigerRopeFunction (q, k, cos, sin): q and k are rotated in place."""
    query, key = call.tensor(0), call.tensor(1)
    if query is None or key is None:
        return None
    return moved([query, key, call.tensor(2), call.tensor(3)], [query, key])


def _cross_entropy(call: OpCall) -> Cost | None:
    """LigerCrossEntropyFunction (input, target, ...): the gradient replaces the logits where one is
    wanted.
    """
    logits, target = call.tensor(0), call.tensor(1)
    if logits is None or target is None:
        return None
    return at_least(
        [logits, target], "logits are overwritten by their gradient only when one is wanted"
    )


KIND = Kind(
    prices={
        **dict.fromkeys(("LigerGELUMulFunction", "LigerSiLUMulFunction"), _gate),
        **dict.fromkeys(
            ("LigerGELUMulFunctionBackward", "LigerSiLUMulFunctionBackward"), _gate_backward
        ),
        "LigerRMSNormFunction": _rms_norm,
        "LigerRMSNormFunctionBackward": _rms_norm_backward,
        "LigerLayerNormFunction": _layer_norm,
        "LigerRopeFunction": _rope,
        "LigerCrossEntropyFunction": _cross_entropy,
    },
    examples=(
        (
            OpCall("LigerGELUMulFunction", [[64, 128, 3072]] * 2, ["c10::BFloat16"] * 2),
            Cost(None, 100_663_296, 50_331_648),
        ),
        (
            OpCall("LigerGELUMulFunctionBackward", [[64, 128, 3072]], ["c10::BFloat16"]),
            Cost(None, 150_994_944, 100_663_296),
        ),
    ),
)
