"""FBGEMM's ops for recommendation models: jagged features, and rows quantized to 8 bits.

A jagged feature is a matrix of lengths and one list of values. Permuting it moves as many values as
the chosen rows hold, which is data; the lengths are known. The lookups of an embedding keep
weights, indices and states out of their arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.model.costs._call import (
    Cost,
    Kind,
    Launch,
    OpCall,
    Tensor,
    at_least,
    dense,
    moved,
    part,
    unknown,
)
from foretrace.model.costs._cub import cub_part

HIDDEN = "weights, indices and states are not among the arguments"
_VALUES = "how many values the chosen rows hold is data"


def _quantize(call: OpCall) -> Cost | None:
    """FloatToFP8RowwiseQuantized (input, ...): a byte per element and a scale per row, in rows of
    padded length.
    """
    source = call.tensor(0)
    return (
        None
        if source is None
        else part([source], [_bytes(source)], "the scales and the padding of the rows left out")
    )


def _quantize_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    source = call.tensor(0)
    if source is None or not source.dims:
        return None
    scales = Tensor(source.dims[:-1], "float")
    if "get_FP8_qparam" in kernel.name:
        return part([source], [scales], "the input read, a scale per row written")
    if "compute_FP8_quantize" in kernel.name:
        return part(
            [source, scales],
            [_bytes(source)],
            "the input and its scales read, a byte per element written",
        )
    return None


def _bytes(source: Tensor) -> Tensor:
    return Tensor(source.dims, "unsigned char")


def _offsets(call: OpCall) -> Cost | None:
    """asynchronous_complete_cumsum (lengths): sums from 0 to the total, one more than there are
    lengths.
    """
    lengths = call.tensor(0)
    if lengths is None or len(lengths.dims) != 1:
        return None
    return moved([lengths], [Tensor((lengths.dims[0] + 1,), lengths.type)])


def _offsets_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    lengths = call.tensor(0)
    if lengths is None or len(lengths.dims) != 1 or "DeviceScanKernel" not in kernel.name:
        return None
    return part([lengths], [dense(lengths)], "the lengths read, their sums written")


def _permute(call: OpCall) -> Cost | None:
    """permute_2D_sparse_data, permute_sparse_features (permute, lengths [features, batch], values,
    ...).
    """
    permute, lengths = call.tensor(0), _chosen(call)
    return None if lengths is None else at_least([permute, lengths, lengths], _VALUES)


def _permute_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    permute, lengths = call.tensor(0), _chosen(call)
    if lengths is None or "permute_2D_lengths" not in kernel.name:
        return cub_part(kernel)
    return part([permute, lengths], [lengths], "the lengths of the chosen rows read and written")


def _chosen(call: OpCall) -> Tensor | None:
    permute, lengths = call.tensor(0), call.tensor(1)
    if permute is None or lengths is None or len(lengths.dims) != 2:
        return None
    return Tensor((permute.elements, lengths.dims[1]), lengths.type)


def _lookup(call: OpCall) -> Cost:
    return unknown(HIDDEN)


_PERMUTES = ("fbgemm::permute_2D_sparse_data", "fbgemm::permute_sparse_features")

KIND = Kind(
    prices={
        "fbgemm::FloatToFP8RowwiseQuantized": _quantize,
        "fbgemm::asynchronous_complete_cumsum": _offsets,
        **dict.fromkeys(_PERMUTES, _permute),
        "torch::autograd::CppNode<SplitLookupFunction*": _lookup,
    },
    shares={
        "fbgemm::FloatToFP8RowwiseQuantized": _quantize_share,
        "fbgemm::asynchronous_complete_cumsum": _offsets_share,
        **dict.fromkeys(_PERMUTES, _permute_share),
    },
    examples=(
        (
            OpCall("fbgemm::FloatToFP8RowwiseQuantized", [[100, 256], []], ["float", "Scalar"]),
            Cost(
                None, 102_400, 25_600, "at least: the scales and the padding of the rows left out"
            ),
        ),
        (OpCall("fbgemm::asynchronous_complete_cumsum", [[2048]], ["int"]), Cost(None, 8192, 8196)),
        (
            OpCall(
                "fbgemm::permute_2D_sparse_data",
                [[12], [10, 64], [9000], [], []],
                ["int", "int", "int", "", "Scalar"],
            ),
            Cost(None, 48 + 2 * 3072, None, f"at least: {_VALUES}", touched=48 + 2 * 3072),
        ),
        (
            OpCall(
                "torch::autograd::CppNode<SplitLookupFunction_rowwise_adagrad_Op>",
                [[64, 160]],
                ["float"],
            ),
            Cost(None, None, None, HIDDEN),
        ),
    ),
    split=(
        (
            OpCall("fbgemm::FloatToFP8RowwiseQuantized", [[100, 256], []], ["float", "Scalar"]),
            {
                Launch("fbgemm_gpu::_get_FP8_qparam_cuda_kernel<float>"): Cost(
                    None, 102_400, 400, "at least: the input read, a scale per row written"
                ),
                Launch("fbgemm_gpu::_compute_FP8_quantize_cuda_kernel<float>"): Cost(
                    None,
                    102_800,
                    25_600,
                    "at least: the input and its scales read, a byte per element written",
                ),
            },
        ),
        (
            OpCall(
                "fbgemm::permute_2D_sparse_data",
                [[12], [10, 64], [9000], [], []],
                ["int", "int", "int", "", "Scalar"],
            ),
            {
                Launch("fbgemm_gpu::permute_2D_lengths_kernel<int>"): Cost(
                    None,
                    48 + 3072,
                    3072,
                    "at least: the lengths of the chosen rows read and written",
                ),
                Launch("fbgemm_gpu::permute_2D_data_kernel<false, int, int>"): Cost(
                    None,
                    None,
                    None,
                    f"{_VALUES}; one of 2 kernels of the op, whose bytes cannot be told apart",
                ),
            },
        ),
    ),
)
