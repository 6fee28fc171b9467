"""Pooling and resizing: input read once, output written once; a backward reads the gradient and
writes the input's.

Window, stride and padding come from `Concrete Inputs`; without them the output is unknown. FLOP are
not counted. A max pool keeps a 64-bit index per output element, which its backward reads.
"""

from __future__ import annotations

from foretrace.model.costs._call import OpCall, Tensor
from foretrace.model.costs._cost import Cost, CostKind, Price, at_least, moved, table

_WHY = "the window is not recorded, so the output is unknown"


def _pool(dilation: int, ceil_mode: int, indices: bool) -> Price:
    """(self, kernel_size, stride, padding, ...): an empty stride means the kernel size."""

    def price(call: OpCall) -> Cost:
        source, window = call.need(0), call.numbers(1) or ()
        axes = len(window)
        gaps = (1,) * axes if dilation < 0 else call.numbers(dilation)
        rows = [window, call.numbers(2) or window, call.numbers(3) or (), gaps or ()]
        if not axes or len(source.dims) <= axes or any(len(row) != axes for row in rows):
            return at_least([source], None, _WHY)
        rounds_up = bool(call.flag(ceil_mode))
        sizes = [
            _length(size, *column, ceil_mode=rounds_up)
            for size, column in zip(source.dims[-axes:], zip(*rows, strict=True), strict=True)
        ]
        out = Tensor((*source.dims[:-axes], *sizes), source.type)
        return moved([source], [out, out.dense("long int") if indices else None])

    return price


def _length(size: int, window: int, step: int, pad: int, gap: int, *, ceil_mode: bool) -> int:
    """Windows that fit; rounding up adds one that starts inside the input or its left padding."""
    step = max(step, 1)
    room = size + 2 * pad - gap * (window - 1) - 1
    length = -(-room // step) + 1 if ceil_mode else room // step + 1
    if ceil_mode and (length - 1) * step >= size + pad:
        length -= 1
    return max(length, 0)


def _resized(call: OpCall) -> Cost:
    """_adaptive_avg_pool2d, upsample_* (self, output_size, ...)."""
    source, size = call.need(0), call.numbers(1)
    if not size or len(source.dims) <= len(size):
        return at_least([source], None, _WHY)
    return moved([source], [Tensor((*source.dims[: -len(size)], *size), source.type)])


def _backward(call: OpCall) -> Cost:
    """(grad_output, self, ..., indices): the input's values themselves are not read."""
    gradient, source = call.need(0), call.need(1)
    indices = [each for each in call.arguments(2) if each and each.type == "long int"]
    return moved([gradient, *indices], [source.dense()])


def _resized_backward(call: OpCall) -> Cost:
    """upsample_*_backward (grad_output, output_size, input_size, ...)."""
    gradient, size = call.need(0), call.numbers(2)
    if not size:
        return at_least([gradient], None, _WHY)
    return moved([gradient], [Tensor(size, gradient.type)])


_MAX_POOL = _pool(dilation=4, ceil_mode=5, indices=True)
_AVG_POOL = _pool(dilation=-1, ceil_mode=4, indices=False)
_BACKWARD = """
    max_pool2d_with_indices_backward max_pool3d_with_indices_backward avg_pool2d_backward
    avg_pool3d_backward _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward"""
_UPSAMPLE = """
    upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample__nearest_exact2d
    upsample_linear1d upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d"""

KIND = CostKind(
    {
        **table("max_pool2d_with_indices max_pool3d_with_indices", _MAX_POOL),
        **table("avg_pool2d avg_pool3d", _AVG_POOL),
        **table("_adaptive_avg_pool2d _adaptive_avg_pool3d", _resized),
        **table(_BACKWARD, _backward),
        **table(_UPSAMPLE, _resized),
        **{f"aten::{name}_backward": _resized_backward for name in _UPSAMPLE.split()},
    }
)
