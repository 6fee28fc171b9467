"""Convolutions: 2 FLOP per output element, input channel of its group and filter tap; each tensor
moved once.

A backward pass makes up to two products of the same size (the gradients of the input and of the
weight), as its output mask says. Bias and bias gradient add no FLOP, as is the custom. Padding
counts as if it were data, which is how the multiply-adds are usually quoted; Winograd and FFT
algorithms do fewer. A trace without concrete inputs does not say stride and padding: the output is
then unknown and only reads are counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from foretrace.model.costs._call import Cost, Kind, OpCall, Price, Tensor, at_least, moved

NONE = -1


@dataclass(frozen=True, slots=True)
class _Places:
    """Where an op keeps its arguments. A convolution that is always transposed has an
    `output_padding` and no flag.
    """

    bias: int
    stride: int
    padding: int
    dilation: int = NONE
    groups: int = NONE
    transposed: int = NONE
    output_padding: int = NONE
    residual: int = NONE

    def is_transposed(self, call: OpCall) -> bool:
        if self.transposed == NONE:
            return self.output_padding != NONE
        return bool(call.flag(self.transposed))


def _forward(places: _Places) -> Price:
    def price(call: OpCall) -> Cost | None:
        image, weight = call.tensor(0), call.tensor(1)
        if image is None or weight is None or len(weight.dims) < 3:
            return None
        reads = [image, weight, call.tensor(places.bias), call.tensor(places.residual)]
        out = _output(call, places, image, weight)
        if out is None:
            return at_least(reads, "stride and padding are not recorded, so the output is unknown")
        return moved(reads, [out], _flops(image, out, weight, places.is_transposed(call)))

    return price


def _backward(call: OpCall) -> Cost | None:
    """convolution_backward (grad_output, input, weight, bias_sizes, ..., transposed at 7, ...,
    output_mask at 10).
    """
    gradient, image, weight = (call.tensor(index) for index in range(3))
    if gradient is None or image is None or weight is None or len(weight.dims) < 3:
        return None
    mask = call.numbers(10)
    if mask is None or len(mask) != 3:
        return at_least([gradient, image, weight], "the output mask is not recorded")
    bias = Tensor(gradient.dims[1:2], gradient.type)
    writes = [
        Tensor(out.dims, out.type)
        for wanted, out in zip(mask, (image, weight, bias), strict=True)
        if wanted
    ]
    reads = [gradient, weight if mask[0] else None, image if mask[1] else None]
    products = bool(mask[0]) + bool(mask[1])
    flops = products * _flops(image, gradient, weight, bool(call.flag(7)))
    cost = moved(reads, writes, flops)
    return Cost(cost.flops, cost.bytes_read, cost.bytes_written, products=max(products, 1))


def _flops(image: Tensor, out: Tensor, weight: Tensor, transposed: bool) -> int:
    """A filter [outer, inner per group, *taps] meets each output element once; a transposed one,
    each input element.
    """
    return 2 * (image if transposed else out).elements * math.prod(weight.dims[1:])


def _output(call: OpCall, places: _Places, image: Tensor, weight: Tensor) -> Tensor | None:
    axes = len(weight.dims) - 2
    stride, padding = (
        _per_axis(call.numbers(place), axes) for place in (places.stride, places.padding)
    )
    gaps = (
        (1,) * axes if places.dilation == NONE else _per_axis(call.numbers(places.dilation), axes)
    )
    if not stride or not padding or not gaps or 0 in stride or len(image.dims) < axes + 1:
        return None
    rows = list(zip(image.dims[-axes:], weight.dims[2:], stride, padding, gaps, strict=True))
    if places.is_transposed(call):
        extra = _per_axis(call.numbers(places.output_padding), axes) or (0,) * axes
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


def _per_axis(values: tuple[int, ...] | None, axes: int) -> tuple[int, ...] | None:
    if values is None or len(values) not in (1, axes):
        return None
    return values if len(values) == axes else values * axes


_GENERAL = _forward(
    _Places(bias=2, stride=3, padding=4, dilation=5, transposed=6, output_padding=7, groups=8)
)
_CONV = _forward(_Places(bias=2, stride=3, padding=4, dilation=5, groups=6))
_CONV_TRANSPOSE = _forward(
    _Places(bias=2, stride=3, padding=4, output_padding=5, groups=6, dilation=7)
)
_MIOPEN = _forward(_Places(bias=2, padding=3, stride=4, dilation=5, groups=6))
_ADD_RELU = _forward(_Places(residual=2, bias=4, stride=5, padding=6, dilation=7, groups=8))
_WITH_KERNEL_SIZE = _forward(_Places(bias=3, stride=4, padding=5, dilation=6))

KIND = Kind(
    prices={
        "aten::convolution": _GENERAL,
        "aten::_convolution": _GENERAL,
        **dict.fromkeys(("aten::conv1d", "aten::conv2d", "aten::conv3d"), _CONV),
        **dict.fromkeys(("aten::cudnn_convolution_relu", "aten::miopen_convolution_relu"), _CONV),
        **dict.fromkeys((f"aten::conv_transpose{axes}d" for axes in (1, 2, 3)), _CONV_TRANSPOSE),
        "aten::cudnn_convolution": _forward(
            _Places(bias=NONE, padding=2, stride=3, dilation=4, groups=5)
        ),
        "aten::cudnn_convolution_transpose": _forward(
            _Places(bias=NONE, padding=2, output_padding=3, stride=4, dilation=5, groups=6)
        ),
        "aten::miopen_convolution_transpose": _forward(
            _Places(bias=2, padding=3, output_padding=4, stride=5, dilation=6, groups=7)
        ),
        "aten::miopen_convolution": _MIOPEN,
        "aten::miopen_depthwise_convolution": _MIOPEN,
        "aten::mkldnn_convolution": _MIOPEN,
        "aten::cudnn_convolution_add_relu": _ADD_RELU,
        "aten::miopen_convolution_add_relu": _ADD_RELU,
        **dict.fromkeys(
            (
                "aten::_conv_depthwise2d",
                "aten::conv_depthwise3d",
                "aten::slow_conv_dilated2d",
                "aten::slow_conv_dilated3d",
            ),
            _WITH_KERNEL_SIZE,
        ),
        **dict.fromkeys(
            (
                "aten::thnn_conv2d",
                "aten::_slow_conv2d_forward",
                "aten::slow_conv3d",
                "aten::slow_conv3d_forward",
            ),
            _forward(_Places(bias=3, stride=4, padding=5)),
        ),
        "aten::convolution_backward": _backward,
    },
    examples=(
        (
            OpCall(
                "aten::cudnn_convolution",
                [[2, 8, 16, 16], [4, 4, 3, 3]],
                ["float", "float"],
                concrete=["", "", "[1, 1]", "[2, 2]", "[1, 1]", "2", "False", "False", "True"],
            ),
            Cost(2 * 512 * 36, 4 * (4096 + 144), 4 * 512),
        ),
        (
            OpCall(
                "aten::convolution",
                [[1, 6, 5, 5], [6, 2, 3, 3], [4]],
                ["c10::Half"] * 3,
                concrete=["", "", "", "[2, 2]", "[0, 0]", "[1, 1]", "True", "[1, 1]", "2"],
            ),
            Cost(2 * 150 * 18, 2 * (150 + 108 + 4), 2 * 4 * 12 * 12),
        ),
        (
            OpCall(
                "aten::convolution_backward",
                [[2, 4, 8, 8], [2, 8, 16, 16], [4, 4, 3, 3]],
                ["float"] * 3,
                concrete=[
                    "",
                    "",
                    "",
                    "[0]",
                    "[2, 2]",
                    "[1, 1]",
                    "[1, 1]",
                    "False",
                    "[0, 0]",
                    "2",
                    "[True, True, False]",
                ],
            ),
            Cost(2 * 2 * 512 * 36, 4 * (512 + 4096 + 144), 4 * (4096 + 144), products=2),
        ),
        (
            OpCall("aten::cudnn_convolution", [[2, 8, 16, 16], [4, 4, 3, 3]], ["float", "float"]),
            Cost(
                None,
                16_960,
                None,
                "at least: stride and padding are not recorded, so the output is unknown",
                touched=16_960,
            ),
        ),
    ),
)
