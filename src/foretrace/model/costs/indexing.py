"""Embedding, gather, scatter and index ops: only the elements that the indices pick are moved, plus
the indices.

A row picked twice counts twice: which rows were picked depends on the data. What a call does not
record stays unknown: the profiler leaves out the sizes of the list of index tensors of `index` and
`index_put`, and the data decide how many results `nonzero`, `masked_select` and `unique` have. The
backward of an embedding sorts the indices: the kernels that read them all, or the whole gradient,
are known by name. FLOP: none, except one per element for the adding variants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from foretrace.model.costs._call import OpCall, Tensor
from foretrace.model.costs._cost import (
    Cost,
    CostKind,
    Launch,
    Price,
    at_least,
    cub_part,
    moved,
    table,
    takes,
    unstated,
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

KINDS = (INDEXING,)
