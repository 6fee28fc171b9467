"""Copies, casts, fills and joins: what is read is written, by the types on each side. No FLOP.

`copy_` reads the source at the size it has in memory and writes all of `self`, which is not read. A
cast to a type that is not recorded is taken to keep it. The tensors of `cat` have their element
type stated only in the kernel's name: the caller supplies it as `list_type`, otherwise the bytes
are unknown.
"""

from __future__ import annotations

import math

from foretrace.model.costs._call import Cost, Kind, OpCall, Price, Tensor, moved, unknown
from foretrace.model.costs._lists import NO_SIZES, NO_TYPE


def _copy(call: OpCall) -> Cost | None:
    """copy_ (self, src, non_blocking)."""
    target, source = call.tensor(0), call.tensor(1)
    if target is None or source is None:
        return None
    return moved([source], [Tensor(target.dims, target.type)], 0)


def _cast(dtype: int) -> Price:
    """clone, contiguous, _to_copy, flip, roll: a dense result of the source's shape, cast where
    `dtype` says so.
    """

    def price(call: OpCall) -> Cost | None:
        source = call.tensor(0)
        if source is None:
            return None
        return moved([source], [Tensor(source.dims, call.scalar_type(dtype) or source.type)], 0)

    return price


def _fill(call: OpCall) -> Cost | None:
    """fill_, zero_ (self, ...): written, not read."""
    target = call.tensor(0)
    return None if target is None else moved([], [target], 0)


def _arange(call: OpCall) -> Cost | None:
    """arange (start, end, step, out): `out` is still empty when the call is recorded."""
    start, end, step, out = call.number(0), call.number(1), call.number(2), call.tensor(3)
    if (
        start is None
        or end is None
        or not step
        or out is None
        or not math.isfinite((end - start) / step)
    ):
        return None
    return moved([], [Tensor((max(math.ceil((end - start) / step), 0),), out.type)], 0)


def _join(call: OpCall) -> Cost | None:
    """cat, stack, _chunk_cat (tensors, ...): every element read once and written once, densely."""
    tensors = call.tensors(0)
    if tensors is None:
        return unknown(NO_SIZES) if "TensorList" in call.types[:1] else None
    dense = (Tensor(tensor.dims, tensor.type) for tensor in tensors)
    return moved(tensors, dense, 0, "" if call.list_type else NO_TYPE)


def _pad(call: OpCall) -> Cost | None:
    """constant_pad_nd, reflection_pad, replication_pad (self, pad): pairs of sizes, the last
    dimension first.
    """
    source, pads = call.tensor(0), call.numbers(1)
    if source is None or pads is None or len(pads) > 2 * len(source.dims):
        return None
    dims = list(source.dims)
    for place, extra in enumerate(pads):
        dims[-1 - place // 2] += extra
    return moved([source], [Tensor(tuple(max(dim, 0) for dim in dims), source.type)], 0)


_DENSE = _cast(dtype=-1)

KIND = Kind(
    prices={
        "aten::copy_": _copy,
        "aten::_to_copy": _cast(dtype=1),
        **dict.fromkeys(
            (
                "aten::clone",
                "aten::contiguous",
                "aten::flip",
                "aten::roll",
                "aten::channel_shuffle",
                "aten::split_with_sizes_copy",
                "aten::split_copy",
                "aten::view_copy",
                "aten::rot90",
            ),
            _DENSE,
        ),
        **dict.fromkeys(("aten::fill_", "aten::zero_"), _fill),
        "aten::arange": _arange,
        **dict.fromkeys(("aten::cat", "aten::stack", "aten::_chunk_cat"), _join),
        **{
            f"aten::{name}": _pad
            for name in (
                "constant_pad_nd",
                "reflection_pad1d",
                "reflection_pad2d",
                "reflection_pad3d",
                "replication_pad1d",
                "replication_pad2d",
                "replication_pad3d",
            )
        },
    },
    examples=(
        (
            OpCall(
                "aten::copy_",
                [[1, 1024, 64], [1, 1024, 64], []],
                ["c10::BFloat16", "float", "Scalar"],
            ),
            Cost(0, 262_144, 131_072),
        ),
        (
            OpCall("aten::copy_", [[2, 1000], [2, 1000]], ["float", "float"], [[1000, 1], [1, 0]]),
            Cost(0, 8, 8000),
        ),
        (OpCall("aten::fill_", [[4, 1025], []], ["long int", "Scalar"]), Cost(0, 0, 32_800)),
        (
            OpCall(
                "aten::arange",
                [[], [], [], [0]],
                ["Scalar", "Scalar", "Scalar", "long int"],
                concrete=["0", "1024", "1", ""],
            ),
            Cost(0, 0, 8192),
        ),
        (
            OpCall(
                "aten::cat",
                [[[1, 1024, 32], [1, 1024, 32]], []],
                ["TensorList", "Scalar"],
                list_type="float",
            ),
            Cost(0, 262_144, 262_144),
        ),
        (
            OpCall("aten::cat", [[[8], [8]], []], ["TensorList", "Scalar"]),
            Cost(0, None, None, NO_TYPE),
        ),
        (
            OpCall(
                "aten::constant_pad_nd",
                [[2, 3], [], []],
                ["float", "ScalarList", "Scalar"],
                concrete=["", "[1, 1]", "0."],
            ),
            Cost(0, 24, 40),
        ),
    ),
)
