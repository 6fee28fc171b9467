"""Convolutions: 2 FLOP per output element, input channel of its group and filter tap; each tensor
moved once.

A backward pass makes up to two matmuls of the same size (the gradients of the input and of the
weight), as its output mask says. Bias and bias gradient add no FLOP, by convention. Padding counts
as if it were data, which is how the multiply-adds are usually quoted; Winograd and FFT algorithms
do fewer. A trace without concrete inputs does not state stride and padding: the output is then
unknown and only reads are counted.
"""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

from foretrace.model.costs._call import OpCall, Tensor
from foretrace.model.costs._cost import Cost, CostKind, Price, at_least, moved, table

NONE = -1


class _Places(Struct, frozen=True):
    """Where an op keeps its arguments; one that always transposes has only `output_padding`."""

    stride: int
    padding: int
    bias: int = NONE
    dilation: int = NONE
    groups: int = NONE
    transposed: int = NONE
    output_padding: int = NONE
    residual: int = NONE

    def is_transposed(self, call: OpCall) -> bool:
        if self.transposed == NONE:
            return self.output_padding != NONE
        return bool(call.flag(self.transposed))


def _forward(arguments: str) -> Price:
    """`arguments` are those behind input and weight, in the order of the schema; `-` skips one."""
    names = enumerate(arguments.split(), 2)
    places = _Places(**{name: place for place, name in names if name != "-"})

    def price(call: OpCall) -> Cost | None:
        image, weight = call.need(0), call.need(1)
        if len(weight.dims) < 3:
            return None
        reads = [image, weight, call.tensor(places.bias), call.tensor(places.residual)]
        out = _output(call, places, image, weight)
        if out is None:
            note = "stride and padding are not recorded, so the output is unknown"
            return at_least(reads, None, note)
        return moved(reads, [out], _flops(image, out, weight, places.is_transposed(call)))

    return price


def _backward(call: OpCall) -> Cost | None:
    """convolution_backward (grad_output, input, weight, ..., transposed at 7, ..., mask at 10)."""
    gradient, image, weight = call.need(0), call.need(1), call.need(2)
    if len(weight.dims) < 3:
        return None
    mask = call.numbers(10)
    if mask is None or len(mask) != 3:
        return at_least([gradient, image, weight], None, "the output mask is not recorded")
    outs = (image, weight, Tensor(gradient.dims[1:2], gradient.type))
    writes = [out.dense() for wanted, out in zip(mask, outs, strict=True) if wanted]
    reads = [gradient, weight if mask[0] else None, image if mask[1] else None]
    matmuls = bool(mask[0]) + bool(mask[1])
    flops = matmuls * _flops(image, gradient, weight, bool(call.flag(7)))
    return replace(moved(reads, writes, flops), matmuls=max(matmuls, 1))


def _flops(image: Tensor, out: Tensor, weight: Tensor, transposed: bool) -> int:
    """A filter [outer, inner per group, *taps] meets each output (transposed: input) element."""
    return 2 * (image if transposed else out).elements * math.prod(weight.dims[1:])


def _output(call: OpCall, places: _Places, image: Tensor, weight: Tensor) -> Tensor | None:
    axes = len(weight.dims) - 2
    stride = _per_axis(call, places.stride, axes)
    padding = _per_axis(call, places.padding, axes)
    gaps = (1,) * axes if places.dilation == NONE else _per_axis(call, places.dilation, axes)
    if not stride or not padding or not gaps or 0 in stride or len(image.dims) < axes + 1:
        return None
    rows = zip(image.dims[-axes:], weight.dims[2:], stride, padding, gaps, strict=True)
    if places.is_transposed(call):
        extra = _per_axis(call, places.output_padding, axes) or (0,) * axes
        channels = weight.dims[1] * (call.integer(places.groups) or 1)
        sizes = [
            (size - 1) * step - 2 * pad + gap * (taps - 1) + 1 + more
            for (size, taps, step, pad, gap), more in zip(rows, extra, strict=True)
        ]
    else:
        channels = weight.dims[0]
        sizes = [
            (size + 2 * pad - gap * (taps - 1) - 1) // step + 1
            for size, taps, step, pad, gap in rows
        ]
    if min(sizes) < 0:
        return None
    return Tensor((*image.dims[: -axes - 1], channels, *sizes), image.type)


def _per_axis(call: OpCall, place: int, axes: int) -> tuple[int, ...] | None:
    values = call.numbers(place)
    if values is None or len(values) not in (1, axes):
        return None
    return values if len(values) == axes else values * axes


_CONV_TRANSPOSE = "conv_transpose1d conv_transpose2d conv_transpose3d"
_DEPTHWISE = "_conv_depthwise2d conv_depthwise3d slow_conv_dilated2d slow_conv_dilated3d"
_SLOW = "thnn_conv2d _slow_conv2d_forward slow_conv3d slow_conv3d_forward"
_ADD_RELU = "cudnn_convolution_add_relu miopen_convolution_add_relu"
_MIOPEN = "miopen_convolution miopen_depthwise_convolution mkldnn_convolution"
_GENERAL = "bias stride padding dilation transposed output_padding groups"
_PLAIN = "conv1d conv2d conv3d cudnn_convolution_relu miopen_convolution_relu"

KIND = CostKind(
    {
        **table("convolution _convolution", _forward(_GENERAL)),
        **table(_PLAIN, _forward("bias stride padding dilation groups")),
        **table(_CONV_TRANSPOSE, _forward("bias stride padding output_padding groups dilation")),
        "aten::cudnn_convolution": _forward("padding stride dilation groups"),
        "aten::cudnn_convolution_transpose": _forward(
            "padding output_padding stride dilation groups"
        ),
        "aten::miopen_convolution_transpose": _forward(
            "bias padding output_padding stride dilation groups"
        ),
        **table(_MIOPEN, _forward("bias padding stride dilation groups")),
        **table(_ADD_RELU, _forward("residual - bias stride padding dilation groups")),
        **table(_DEPTHWISE, _forward("- bias stride padding dilation")),
        **table(_SLOW, _forward("- bias stride padding")),
        "aten::convolution_backward": _backward,
    }
)
