"""Embedding, gather, scatter and index ops: only the elements that the indices pick are moved, plus
the indices.

A row picked twice is counted twice: which rows were picked is data. What a call does not record
stays unknown: `index` and `index_put` keep their index tensors in a list whose sizes the profiler
leaves out, and `nonzero`, `masked_select` and `unique` have as many results as the data say. The
backward of an embedding sorts the indices: the kernels that read them all, or the whole gradient,
are known by name. FLOP: none, except one per element for the adding variants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from foretrace.model.costs._call import (
    Cost,
    Kind,
    Launch,
    OpCall,
    Price,
    Tensor,
    at_least,
    dense,
    moved,
    part,
    unknown,
)
from foretrace.model.costs._cub import cub_part


def _select(call: OpCall) -> Cost | None:
    """index_select (self, dim, index): `self` with dimension `dim` as long as the index."""
    source, index = call.tensor(0), call.tensor(2)
    dim = call.integer(1)
    if source is None or index is None:
        return None
    if dim is None or not source.dims:
        return at_least([index], "the dimension is not recorded")
    dims = list(source.dims)
    dims[dim % len(dims)] = index.elements
    picked = Tensor(tuple(dims), source.type)
    return moved([picked, index], [picked], 0)


def _embedding(call: OpCall) -> Cost | None:
    """embedding (weight, indices, ...): a row per index."""
    weight, index = call.tensor(0), call.tensor(1)
    if weight is None or index is None:
        return None
    picked = Tensor((*index.dims, *weight.dims[1:]), weight.type)
    return moved([picked, index], [picked], 0)


def _embedding_backward(call: OpCall) -> Cost | None:
    """embedding_dense_backward (grad_output, indices, ...): rows of equal index are added up, so
    the writes are data.

    It sorts the indices first; those passes are not counted.
    """
    gradient = call.tensor(0)
    if gradient is None:
        return None
    why = "how many distinct rows are written is data, and so is the sorting"
    return at_least([gradient, call.tensor(1)], why, gradient.elements)


def _embedding_backward_share(
    call: OpCall, kernel: Launch, kernels: Sequence[Launch]
) -> Cost | None:
    """The indices are sorted with their places, equal ones found, and the rows of each added up;
    those counts are data.
    """
    gradient, index = call.tensor(0), call.tensor(1)
    if gradient is None or index is None:
        return None
    if "UniqueByKeySweep" in kernel.name:
        return part([dense(index)], None, "the sorted indices read")
    if "compute_grad_weight" in kernel.name:
        return part([gradient, dense(index)], None, "the gradient and the places of its rows read")
    return cub_part(kernel, index.elements)


def _gather(call: OpCall) -> Cost | None:
    """gather (self, dim, index, ...): one element per index."""
    source, index = call.tensor(0), call.tensor(2)
    if source is None or index is None:
        return None
    picked = Tensor(index.dims, source.type)
    return moved([picked, index], [picked], 0)


def _scatter(adds: bool) -> Price:
    """scatter (self, dim, index, src or value): in place it writes the picked elements, otherwise a
    whole copy too.
    """

    def price(call: OpCall) -> Cost | None:
        target, index = call.tensor(0), call.tensor(2)
        if target is None or index is None:
            return None
        source, picked = call.tensor(3), Tensor(index.dims, target.type)
        values = Tensor(index.dims, source.type) if source else None
        copy = None if call.name.endswith("_") else target
        reads = [index, values, picked if adds else None, copy]
        return moved(reads, [picked, copy], picked.elements if adds else 0)

    return price


def _rows(adds: bool) -> Price:
    """index_add, index_copy, index_fill (self, dim, index, source or value)."""

    def price(call: OpCall) -> Cost | None:
        target, index, dim = call.tensor(0), call.tensor(2), call.integer(1)
        if target is None or index is None or dim is None or not target.dims:
            return None
        source = call.tensor(3)
        across = math.prod(
            size for axis, size in enumerate(target.dims) if axis != dim % len(target.dims)
        )
        picked = Tensor((index.elements, across), target.type)
        copy = None if call.name.endswith("_") else target
        reads = [index, source if source and source.dims else None, picked if adds else None, copy]
        return moved(reads, [picked, copy], picked.elements if adds else 0)

    return price


def _put(call: OpCall) -> Cost | None:
    """index_put_ (self, indices, values, accumulate): as many elements as values, unless those are
    broadcast.
    """
    values = call.tensor(2)
    if values is None:
        return None
    return at_least(
        [values], "the index tensors are not recorded, and broadcast values are written more often"
    )


def _unrecorded(call: OpCall) -> Cost:
    return unknown("how many elements are picked is not recorded")


def _data_dependent(call: OpCall) -> Cost | None:
    """nonzero, masked_select, unique: everything is read, the result's size is data."""
    source = call.tensor(0)
    return (
        None
        if source is None
        else at_least([source, call.tensor(1)], "the size of the result is data")
    )


KIND = Kind(
    prices={
        "aten::index_select": _select,
        "aten::embedding": _embedding,
        "aten::embedding_dense_backward": _embedding_backward,
        "aten::embedding_backward": _embedding_backward,
        **dict.fromkeys(("aten::gather", "aten::take_along_dim"), _gather),
        **dict.fromkeys(("aten::scatter", "aten::scatter_"), _scatter(adds=False)),
        **dict.fromkeys(
            (
                "aten::scatter_add",
                "aten::scatter_add_",
                "aten::scatter_reduce",
                "aten::scatter_reduce_",
            ),
            _scatter(adds=True),
        ),
        **dict.fromkeys(
            ("aten::index_copy", "aten::index_copy_", "aten::index_fill", "aten::index_fill_"),
            _rows(adds=False),
        ),
        **dict.fromkeys(("aten::index_add", "aten::index_add_"), _rows(adds=True)),
        **dict.fromkeys(("aten::index_put", "aten::index_put_", "aten::_index_put_impl_"), _put),
        **dict.fromkeys(("aten::index", "aten::_unsafe_index"), _unrecorded),
        **dict.fromkeys(
            (
                "aten::nonzero",
                "aten::masked_select",
                "aten::_unique",
                "aten::_unique2",
                "aten::unique_consecutive",
                "aten::unique_dim",
            ),
            _data_dependent,
        ),
    },
    examples=(
        (
            OpCall(
                "aten::index_select",
                [[30522, 512], [], [141]],
                ["c10::BFloat16", "Scalar", "long int"],
                concrete=["", "0", ""],
            ),
            Cost(0, 144_384 + 1128, 144_384),
        ),
        (
            OpCall(
                "aten::gather",
                [[32000, 1024], [], [4096, 1024], [], [4096, 1024]],
                ["c10::BFloat16", "Scalar", "long int", "Scalar", "c10::BFloat16"],
                [[1024, 1], [], [1, 0], [], [1024, 1]],
                ["", "0", "", "False", ""],
            ),
            Cost(0, 8_388_608 + 32_768, 8_388_608),
        ),
        (
            OpCall(
                "aten::scatter_add_", [[4], [], [2], [2]], ["float", "Scalar", "long int", "float"]
            ),
            Cost(2, 16 + 8 + 8, 8),
        ),
        (
            OpCall(
                "aten::embedding_dense_backward",
                [[4, 1024, 1024], [4, 1024]],
                ["c10::BFloat16", "long int"],
            ),
            Cost(
                4_194_304,
                8_421_376,
                None,
                "at least: how many distinct rows are written is data, and so is the sorting",
                touched=8_421_376,
            ),
        ),
        (
            OpCall("aten::index", [[888, 2880], []], ["float", ""]),
            Cost(None, None, None, "how many elements are picked is not recorded"),
        ),
    ),
    shares={"aten::embedding_dense_backward": _embedding_backward_share},
    split=(
        (
            OpCall(
                "aten::embedding_dense_backward",
                [[4, 1024, 1024], [4, 1024]],
                ["c10::BFloat16", "long int"],
            ),
            {
                Launch(
                    "DeviceRadixSortHistogramKernel<policy_hub<long, OpaqueType<8>, unsigned long "
                    "long>",
                    "sort",
                ): Cost(None, 32_768, None, "at least: the keys read", touched=32_768),
                Launch(
                    "DeviceRadixSortOnesweepKernel<policy_hub<long, OpaqueType<8>, unsigned long "
                    "long>",
                    "sort",
                ): Cost(None, 65_536, 65_536, "at least: keys and values read and written"),
                Launch(
                    "DeviceUniqueByKeySweepKernel<policy_hub<long, int>", "scatter_gather"
                ): Cost(None, 32_768, None, "at least: the sorted indices read", touched=32_768),
                Launch("compute_grad_weight<c10::BFloat16, long>", "scatter_gather"): Cost(
                    None,
                    8_421_376,
                    None,
                    "at least: the gradient and the places of its rows read",
                    touched=8_421_376,
                ),
                Launch("sum_and_scatter<c10::BFloat16, long>", "scatter_gather"): Cost(
                    None,
                    None,
                    None,
                    "how many distinct rows are written is data, and so is the sorting; "
                    "one of 5 kernels of the op, whose bytes cannot be told apart",
                ),
            },
        ),
    ),
)
