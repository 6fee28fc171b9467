"""Copies, fills and random numbers.

Copies, casts, fills and joins: what is read is written, by the types on each side. No FLOP.

`copy_` reads the source at the size it has in memory and writes all of `self`, which is not read. A
cast to a type that is not recorded counts as one to the same type. Only the kernel's name states
the element type of the tensors of `cat`: the caller supplies it as `list_type`, otherwise the bytes
are unknown.

Random numbers and dropout: numbers are made on chip, so only results move. FLOP of the generator
are not counted.

Dropout writes a mask of one byte per element beside its output. `multinomial` sorts or searches
inside, in passes that are not counted.
"""

from __future__ import annotations

import math

from foretrace.model.costs._call import OpCall, Tensor
from foretrace.model.costs._cost import (
    UNSIZED,
    Cost,
    CostKind,
    Price,
    moved,
    moved_lists,
    table,
    takes,
)


def _cast(dtype: int) -> Price:
    """clone, contiguous, _to_copy, flip, roll: a dense result, cast where `dtype` says so."""

    def price(call: OpCall) -> Cost:
        source = call.need(0)
        return moved([source], [source.dense(call.scalar_type(dtype))], 0)

    return price


def _arange(call: OpCall) -> Cost | None:
    """arange (start, end, step, out): `out` is still empty when the call is recorded."""
    start, end, step, out = call.number(0), call.number(1), call.number(2), call.need(3)
    if start is None or end is None or not step or not math.isfinite((end - start) / step):
        return None
    return moved([], [Tensor((max(math.ceil((end - start) / step), 0),), out.type)], 0)


def _join(call: OpCall) -> Cost | None:
    """cat, stack, _chunk_cat (tensors, ...): every element read once and written once, densely."""
    tensors = call.tensors(0)
    if tensors is None:
        return UNSIZED if "TensorList" in call.types[:1] else None
    return moved_lists(call, tensors, [tensor.dense() for tensor in tensors], 0)


def _pad(call: OpCall) -> Cost | None:
    """constant_pad_nd, reflection_pad, replication_pad (self, pad): the last dimension first."""
    source, pads = call.need(0), call.numbers(1)
    if pads is None or len(pads) > 2 * len(source.dims):
        return None
    dims = list(source.dims)
    for place, extra in enumerate(pads):
        dims[-1 - place // 2] += extra
    return moved([source], [Tensor(tuple(max(dim, 0) for dim in dims), source.type)], 0)


_DENSE = """
    clone contiguous flip roll channel_shuffle split_with_sizes_copy split_copy view_copy rot90"""
_PADS = """
    constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d
    replication_pad1d replication_pad2d replication_pad3d"""

COPY = CostKind(
    {
        "aten::copy_": takes("- in -> 0", flops=0),
        "aten::_to_copy": _cast(dtype=1),
        **table(_DENSE, _cast(dtype=-1)),
        **table("fill_ zero_", takes("out", flops=0)),
        "aten::arange": _arange,
        **table("cat stack _chunk_cat", _join),
        **table(_PADS, _pad),
    }
)


def _multinomial(call: OpCall) -> Cost | None:
    """multinomial (self, num_samples, ...): `num_samples` 64-bit indices per row."""
    source, samples = call.need(0), call.integer(1)
    if samples is None or not source.dims:
        return None
    return moved([source], [Tensor((*source.dims[:-1], samples), "long int")])


_IN_PLACE = "normal_ uniform_ random_ exponential_ geometric_ log_normal_ cauchy_ bernoulli_"

RANDOM = CostKind(
    {
        **table(_IN_PLACE, takes("out in?")),
        **table("bernoulli poisson", takes("in -> 0")),
        **table("native_dropout _fused_dropout", takes("in -> 0, 0 bool", per=0)),
        "aten::multinomial": _multinomial,
    }
)


KINDS = (COPY, RANDOM)
