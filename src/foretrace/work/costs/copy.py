"""Copies, fills, random numbers, index ops and collectives; `docs/costs.md` has the conventions.

`copy_` reads the source at the size it has in memory and writes all of `self`, which is not read. A
cast to a type that is not recorded counts as one to the same type. Only the kernel's name states
the element type of the tensors of `cat`: the caller supplies it as `list_type`.

Random numbers are made on chip, so only results move. Dropout writes a mask of one byte per element
beside its output.

A row that an index picks twice counts twice: which rows were picked depends on the data. The
backward of an embedding sorts the indices: the kernels that read them all, or the whole gradient,
are known by name. The adding variants count one FLOP per element.

A collective reads its message and writes its result once at least. A ring passes every chunk on as
it arrives, so a real algorithm moves a small multiple.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from foretrace.work.costs._call import OpCall, Tensor
from foretrace.work.costs._cost import (
    UNSIZED,
    Cost,
    CostKind,
    Launch,
    Price,
    at_least,
    cub_part,
    moved,
    moved_lists,
    table,
    takes,
    unstated,
)
from foretrace.work.traffic import Certainty


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
        "aten::_to_copy": takes("in -> 0 @1", flops=0),
        **table(_DENSE, takes("in -> 0", flops=0)),
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


def _select(call: OpCall) -> Cost:
    """index_select (self, dim, index): `self` with dimension `dim` as long as the index."""
    source, index, dim = call.need(0), call.need(2), call.integer(1)
    if dim is None or not source.dims:
        return at_least([index], None, "the dimension is not recorded")
    dims = list(source.dims)
    dims[dim % len(dims)] = index.elements
    picked = Tensor(tuple(dims), source.type)
    return moved([picked, index], [picked], 0)


def _embedding(call: OpCall) -> Cost:
    """embedding (weight, indices, ...): a row per index."""
    weight, index = call.need(0), call.need(1)
    picked = Tensor((*index.dims, *weight.dims[1:]), weight.type)
    return moved([picked, index], [picked], 0)


def _embedding_backward_share(
    call: OpCall, kernel: Launch, kernels: Sequence[Launch]
) -> Cost | None:
    gradient, index = call.need(0), call.need(1)
    if "UniqueByKeySweep" in kernel.name:
        return at_least([index.dense()], None, "reads the sorted indices")
    if "compute_grad_weight" in kernel.name:
        note = "reads the gradient and the places of its rows"
        return at_least([gradient, index.dense()], None, note)
    return cub_part(kernel, index.elements)


def _gather(call: OpCall) -> Cost:
    """gather (self, dim, index, ...): one element per index."""
    source, index = call.need(0), call.need(2)
    picked = index.dense(source.type)
    return moved([picked, index], [picked], 0)


def _written(
    call: OpCall, target: Tensor, picked: Tensor, reads: list[Tensor | None], adds: bool
) -> Cost:
    """In place it writes the picked elements, otherwise a whole copy too."""
    copy = None if call.name.endswith("_") else target
    reads = [*reads, picked if adds else None, copy]
    return moved(reads, [picked, copy], picked.elements if adds else 0)


def _scatter(adds: bool) -> Price:
    """scatter (self, dim, index, src or value)."""

    def price(call: OpCall) -> Cost:
        target, index, source = call.need(0), call.need(2), call.tensor(3)
        values = index.dense(source.type) if source else None
        return _written(call, target, index.dense(target.type), [index, values], adds)

    return price


def _rows(adds: bool) -> Price:
    """index_add, index_copy, index_fill (self, dim, index, source or value)."""

    def price(call: OpCall) -> Cost | None:
        target, index, source, dim = call.need(0), call.need(2), call.tensor(3), call.integer(1)
        if dim is None or not target.dims:
            return None
        axis = dim % len(target.dims)
        across = math.prod(target.dims[:axis] + target.dims[axis + 1 :])
        picked = Tensor((index.elements, across), target.type)
        values = source if source and source.dims else None
        return _written(call, target, picked, [index, values], adds)

    return price


ROWS = "how many distinct rows are written depends on the data, and so does the sorting"
INDICES = "the index tensors are not recorded, and broadcast values are written more often"
RESULT = "the size of the result depends on the data"
_DATA_DEPENDENT = "nonzero masked_select _unique _unique2 unique_consecutive unique_dim"

INDEXING = CostKind(
    prices={
        "aten::index_select": _select,
        "aten::embedding": _embedding,
        **table(
            "embedding_dense_backward embedding_backward", takes("in in?", ROWS, per=0, least=True)
        ),
        **table("gather take_along_dim", _gather),
        **table("scatter scatter_", _scatter(adds=False)),
        **table("scatter_add scatter_add_ scatter_reduce scatter_reduce_", _scatter(adds=True)),
        **table("index_copy index_copy_ index_fill index_fill_", _rows(adds=False)),
        **table("index_add index_add_", _rows(adds=True)),
        **table("index_put index_put_ _index_put_impl_", takes("- - in", INDICES, least=True)),
        **table("index _unsafe_index", unstated("how many elements are picked is not recorded")),
        **table(_DATA_DEPENDENT, takes("in in?", RESULT, least=True)),
    },
    shares={"aten::embedding_dense_backward": _embedding_backward_share},
)


NOTE = "the message in and out once; the algorithm moves more"
SENT = "the message in once; its result is not recorded, and the algorithm moves more"

# how the profiler writes the type of a message: our name for it, and the bytes of an element
ELEMENT_TYPES = {
    "BFloat16": ("c10::BFloat16", 2), "Half": ("c10::Half", 2), "Float": ("float", 4),
    "Double": ("double", 8), "Int": ("int", 4), "Long": ("long int", 8), "Short": ("short int", 2),
    "Byte": ("unsigned char", 1), "Char": ("signed char", 1), "Bool": ("bool", 1),
    "Float8_e4m3fn": ("c10::Float8_e4m3fn", 1), "Float8_e5m2": ("c10::Float8_e5m2", 1),
    "Float8_e4m3fnuz": ("c10::Float8_e4m3fnuz", 1), "Float8_e5m2fnuz": ("c10::Float8_e5m2fnuz", 1),
}  # fmt: skip


def _recorded(call: OpCall) -> Cost | None:
    """record_param_comms, with `In msg nelems`, `Out msg nelems` and `dtype`.

    Old traces have none of the three, but the tensor that goes in.
    """
    _, size = ELEMENT_TYPES.get(str(call.kwargs.get("dtype")), ("", None))
    read, written = call.kwargs.get("In msg nelems"), call.kwargs.get("Out msg nelems")
    if size is not None and isinstance(read, int) and isinstance(written, int):
        return Cost(None, read * size, written * size, NOTE, Certainty.AT_LEAST)
    message = call.tensor(0)
    return at_least([message], None, SENT) if message else None


_BASES = "_allgather_base_ _reduce_scatter_base_ alltoall_base_"
_REDUCED_IN_PLACE = "multimem_all_reduce_ two_shot_all_reduce_"

COMMS = CostKind(
    {
        "record_param_comms": _recorded,
        **table(_BASES, takes("out in", NOTE, least=True), "c10d::"),
        "_C_custom_ar::all_reduce": takes("- in out", NOTE, least=True),
        **table(_REDUCED_IN_PLACE, takes("both", NOTE, least=True), "symm_mem::"),
    }
)


KINDS = (COPY, RANDOM, INDEXING, COMMS)
