"""FBGEMM's ops for recommendation models: jagged features, and rows quantized to 8 bits.

A jagged feature is a matrix of lengths and one list of values. The lengths are known. How many
values a permutation moves depends on the data. The lookups of an embedding keep weights, indices
and states out of their arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.model.costs._call import OpCall, Tensor
from foretrace.model.costs._cost import Cost, CostKind, Launch, at_least, moved, table, unstated
from foretrace.model.costs._names import cub_part

HIDDEN = "weights, indices and states are not among the arguments"
VALUES = "how many values the chosen rows hold depends on the data"


def _quantize(call: OpCall) -> Cost:
    """FloatToFP8RowwiseQuantized (input, ...): a byte per element, and a scale per padded row."""
    source = call.need(0)
    note = "leaves out the scales and the padding of the rows"
    return at_least([source], [source.dense("unsigned char")], note)


def _quantize_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    source = call.need(0)
    if not source.dims:
        return None
    scales = Tensor(source.dims[:-1], "float")
    if "get_FP8_qparam" in kernel.name:
        return at_least([source], [scales], "reads the input, writes a scale per row")
    if "compute_FP8_quantize" in kernel.name:
        note = "reads the input and its scales, writes a byte per element"
        return at_least([source, scales], [source.dense("unsigned char")], note)
    return None


def _offsets(call: OpCall) -> Cost | None:
    """asynchronous_complete_cumsum (lengths): one sum more than there are lengths."""
    lengths = call.need(0)
    if len(lengths.dims) != 1:
        return None
    return moved([lengths], [Tensor((lengths.dims[0] + 1,), lengths.type)])


def _offsets_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    lengths = call.need(0)
    if len(lengths.dims) != 1 or "DeviceScanKernel" not in kernel.name:
        return None
    return at_least([lengths], [lengths.dense()], "reads the lengths, writes their sums")


def _permute(call: OpCall) -> Cost | None:
    """permute_2D_sparse_data (permute, lengths [features, batch], values, ...)."""
    lengths = _chosen(call)
    if lengths is None:
        return None
    return at_least([call.tensor(0), lengths, lengths], None, VALUES)


def _permute_share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    lengths = _chosen(call)
    if lengths is None or "permute_2D_lengths" not in kernel.name:
        return cub_part(kernel)
    note = "reads and writes the lengths of the chosen rows"
    return at_least([call.tensor(0), lengths], [lengths], note)


def _chosen(call: OpCall) -> Tensor | None:
    permute, lengths = call.tensor(0), call.tensor(1)
    if permute is None or lengths is None or len(lengths.dims) != 2:
        return None
    return Tensor((permute.elements, lengths.dims[1]), lengths.type)


_PERMUTES = "permute_2D_sparse_data permute_sparse_features"

KIND = CostKind(
    prices={
        "fbgemm::FloatToFP8RowwiseQuantized": _quantize,
        "fbgemm::asynchronous_complete_cumsum": _offsets,
        **table(_PERMUTES, _permute, "fbgemm::"),
        "torch::autograd::CppNode<SplitLookupFunction*": unstated(HIDDEN),
    },
    shares={
        "fbgemm::FloatToFP8RowwiseQuantized": _quantize_share,
        "fbgemm::asynchronous_complete_cumsum": _offsets_share,
        **table(_PERMUTES, _permute_share, "fbgemm::"),
    },
)
