"""Convolutions, pooling and resizing; `docs/costs.md` has the conventions.

A backward pass makes up to two matmuls of the same size (the gradients of the input and of the
weight), as its output mask says. Padding counts as if it were data, which is how the multiply-adds
are usually quoted; Winograd and FFT algorithms do fewer. Window, stride and padding come from
`Concrete Inputs`: without them the output is unknown and only reads are counted. A max pool keeps a
64-bit index per output element, which its backward reads.
"""

from __future__ import annotations

import math

from msgspec.structs import replace

from foretrace.work.costs._call import OpCall, Tensor
from foretrace.work.costs._cost import Cost, CostKind, Price, at_least, moved, table

NONE = -1


_Places = dict[str, int]  # of the arguments, by name


def _forward(arguments: str) -> Price:
    """`arguments` are those behind input and weight, in the order of the schema; `-` skips one."""
    places = {name: place for place, name in enumerate(arguments.split(), 2)}

    def price(call: OpCall) -> Cost | None:
        image, weight = call.need(0), call.need(1)
        if len(weight.dims) < 3:
            return None
        others = [call.tensor(places.get(name, NONE)) for name in ("bias", "residual")]
        reads = [image, weight, *others]
        out = _output(call, places, image, weight)
        if out is None:
            note = "stride and padding are not recorded, so the output is unknown"
            return at_least(reads, None, note)
        return moved(reads, [out], _flops(image, out, weight, _is_transposed(call, places)))

    return price


def _is_transposed(call: OpCall, places: _Places) -> bool:
    """An op that always transposes has only `output_padding`."""
    if "transposed" in places:
        return bool(call.flag(places["transposed"]))
    return "output_padding" in places


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
    stride, padding = (_per_axis(call, places[name], axes) for name in ("stride", "padding"))
    dilation = places.get("dilation")
    gaps = (1,) * axes if dilation is None else _per_axis(call, dilation, axes)
    if not stride or not padding or not gaps or 0 in stride or len(image.dims) < axes + 1:
        return None
    rows = zip(image.dims[-axes:], weight.dims[2:], stride, padding, gaps, strict=True)
    if _is_transposed(call, places):
        extra = _per_axis(call, places["output_padding"], axes) or (0,) * axes
        channels = weight.dims[1] * (call.integer(places.get("groups", NONE)) or 1)
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

CONVOLUTION = CostKind(
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


def _pooling_backward(call: OpCall) -> Cost:
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

POOLING = CostKind(
    {
        **table("max_pool2d_with_indices max_pool3d_with_indices", _MAX_POOL),
        **table("avg_pool2d avg_pool3d", _AVG_POOL),
        **table("_adaptive_avg_pool2d _adaptive_avg_pool3d", _resized),
        **table(_BACKWARD, _pooling_backward),
        **table(_UPSAMPLE, _resized),
        **{f"aten::{name}_backward": _resized_backward for name in _UPSAMPLE.split()},
    }
)


KINDS = (CONVOLUTION, POOLING)
