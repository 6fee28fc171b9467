"""Pooling and resizing: input read once, output written once; a backward reads the gradient and
writes the input's.

Window, stride and padding come from `Concrete Inputs`; without them the output is unknown. FLOP are
not stated. A max pool keeps a 64-bit index per output element, which its backward reads.
"""

from __future__ import annotations

from foretrace.model.costs._call import Cost, Kind, OpCall, Price, Tensor, at_least, moved

_WHY = "the window is not recorded, so the output is unknown"


def _pool(dilation: int, ceil_mode: int, indices: bool) -> Price:
    """(self, kernel_size, stride, padding, ...): an empty stride means the kernel size."""

    def price(call: OpCall) -> Cost | None:
        source, window = call.tensor(0), call.numbers(1)
        if source is None:
            return None
        axes = len(window or ())
        stride, padding = call.numbers(2) or window, call.numbers(3)
        gaps = (1,) * axes if dilation < 0 else call.numbers(dilation)
        rows = (window, stride, padding, gaps)
        if (
            not axes
            or len(source.dims) <= axes
            or any(row is None or len(row) != axes for row in rows)
        ):
            return at_least([source], _WHY)
        rounds_up = bool(call.flag(ceil_mode))
        columns = zip(source.dims[-axes:], *(row or () for row in rows), strict=True)
        sizes = [
            _length(size, wide, step, pad, gap, rounds_up) for size, wide, step, pad, gap in columns
        ]
        out = Tensor((*source.dims[:-axes], *sizes), source.type)
        return moved([source], [out, Tensor(out.dims, "long int") if indices else None])

    return price


def _length(size: int, window: int, step: int, pad: int, gap: int, ceil_mode: bool) -> int:
    """Windows that fit; rounding up adds one that starts inside the input or its left padding."""
    step = max(step, 1)
    room = size + 2 * pad - gap * (window - 1) - 1
    length = -(-room // step) + 1 if ceil_mode else room // step + 1
    if ceil_mode and (length - 1) * step >= size + pad:
        length -= 1
    return max(length, 0)


def _resized(call: OpCall) -> Cost | None:
    """_adaptive_avg_pool2d, upsample_* (self, output_size, ...)."""
    source, size = call.tensor(0), call.numbers(1)
    if source is None:
        return None
    if not size or len(source.dims) <= len(size):
        return at_least([source], _WHY)
    return moved([source], [Tensor((*source.dims[: -len(size)], *size), source.type)])


def _backward(call: OpCall) -> Cost | None:
    """(grad_output, self, ..., indices): the input's values themselves are not read."""
    gradient, source = call.tensor(0), call.tensor(1)
    if gradient is None or source is None:
        return None
    indices = [call.tensor(index) for index in range(2, len(call.types))]
    return moved(
        [gradient, *(each for each in indices if each and each.type == "long int")],
        [Tensor(source.dims, source.type)],
    )


def _resized_backward(call: OpCall) -> Cost | None:
    """upsample_*_backward (grad_output, output_size, input_size, ...)."""
    gradient, size = call.tensor(0), call.numbers(2)
    if gradient is None:
        return None
    return moved([gradient], [Tensor(size, gradient.type)]) if size else at_least([gradient], _WHY)


_UPSAMPLE = (
    "nearest1d",
    "nearest2d",
    "nearest3d",
    "_nearest_exact2d",
    "linear1d",
    "bilinear2d",
    "bicubic2d",
    "trilinear3d",
)

KIND = Kind(
    prices={
        **{
            f"aten::max_pool{axes}d_with_indices": _pool(dilation=4, ceil_mode=5, indices=True)
            for axes in (2, 3)
        },
        **{f"aten::max_pool{axes}d_with_indices_backward": _backward for axes in (2, 3)},
        **{
            f"aten::avg_pool{axes}d": _pool(dilation=-1, ceil_mode=4, indices=False)
            for axes in (2, 3)
        },
        **{f"aten::avg_pool{axes}d_backward": _backward for axes in (2, 3)},
        **{f"aten::_adaptive_avg_pool{axes}d": _resized for axes in (2, 3)},
        **{f"aten::_adaptive_avg_pool{axes}d_backward": _backward for axes in (2, 3)},
        **{f"aten::upsample_{kind}": _resized for kind in _UPSAMPLE},
        **{f"aten::upsample_{kind}_backward": _resized_backward for kind in _UPSAMPLE},
    },
    examples=(
        (
            OpCall(
                "aten::max_pool2d_with_indices",
                [[2, 8, 16, 16], [], [], [], [], []],
                ["float"] + ["ScalarList"] * 4 + ["Scalar"],
                concrete=["", "[2, 2]", "[]", "[0, 0]", "[1, 1]", "False"],
            ),
            Cost(None, 16_384, 1024 * (4 + 8)),
        ),
        (
            OpCall(
                "aten::_adaptive_avg_pool2d",
                [[2, 8, 7, 7], []],
                ["c10::Half", "ScalarList"],
                concrete=["", "[1, 1]"],
            ),
            Cost(None, 1568, 32),
        ),
    ),
)
