"""Views whose strides the log recorded: the same bytes in another order, and nothing copied.

`t()` of a weight [64, 32] with strides (32, 1) is [32, 64] with strides (1, 32). The wrapper passes
the weight's own memory under these strides to the library. There the order of an operand is a
letter of the kernel's layout: `tn` is a transposed weight and an input as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from foretrace.schema.compiler import (
    Compilation,
    FxGraph,
    GraphNode,
    KernelCall,
    NamedTensor,
)
from foretrace.schema.documents.why import StrideEntry

# Ops that put the dimensions of a tensor into another order.
_ORDERS = frozenset({"permute", "t", "transpose", "swapaxes", "movedim"})
_MATMULS = ("mm", "addmm", "bmm", "baddbmm", "_int_mm")


def strided_views(compilation: Compilation) -> tuple[StrideEntry, ...]:
    """The views of all post-grad graphs whose strides are recorded."""
    return tuple(
        _view(compilation, graph, node, source)
        for graph in compilation.graphs
        if graph.stage == "post_grad"
        for node, source in _reordered(graph)
    )


def layout(call: KernelCall) -> str:
    """The letters of a library's matmul, the second operand first; empty for any other call.

    In torch's order [M, K] x [K, N], a library that counts columns first reads the second operand
    as `t` if its K is contiguous, and the first as `n` if its K is.
    """
    if not call.extern or call.kernel.rpartition(".")[2] not in _MATMULS:
        return ""
    operands = [each.tensor for each in call.accesses if each.mode == "load"][-2:]
    if len(operands) < 2 or any(len(each.stride) < 2 for each in operands):
        return ""
    first, second = (each.stride[-2:] for each in operands)
    letters = {(True, False): "t", (False, True): "n"}
    return letters.get((second[0] == 1, second[1] == 1), "") + letters.get(
        (first[0] == 1, first[1] == 1), ""
    )


def _reordered(graph: FxGraph) -> Iterator[tuple[GraphNode, NamedTensor]]:
    """Nodes that reorder a tensor, with that tensor, where both have strides."""
    tensors = {node.name: node.tensor for node in graph.nodes if node.tensor}
    tensors.update({each.name: each for each in graph.inputs})
    for node in graph.nodes:
        source = tensors.get(node.inputs[0]) if node.inputs else None
        op = node.target.removeprefix("torch.ops.aten.").removeprefix("aten.").partition(".")[0]
        if op in _ORDERS and source and node.tensor and _is_order(source, node.tensor):
            yield node, source


def _is_order(source: NamedTensor, result: NamedTensor) -> bool:
    """Whether two tensors have the same dimensions, each with its stride, in another order."""
    before, after = (list(zip(each.shape, each.stride, strict=False)) for each in (source, result))
    known = len(source.stride) == len(source.shape) and len(result.stride) == len(result.shape)
    return known and before != after and sorted(before, key=str) == sorted(after, key=str)


def _view(
    compilation: Compilation, graph: FxGraph, node: GraphNode, source: NamedTensor
) -> StrideEntry:
    assert node.tensor is not None
    wanted = (source.name, node.tensor.shape, node.tensor.stride)
    calls = [
        call
        for call in compilation.calls
        if graph.graph in (None, call.graph)
        and any(
            (each.tensor.name, each.tensor.shape, each.tensor.stride) == wanted
            for each in call.accesses
            if each.mode == "load"
        )
    ]
    letters = next((found for call in calls if (found := layout(call))), "")
    names = tuple(call.name for call in calls)
    view = (node.target, source, node.tensor, names, letters, node.source)
    return StrideEntry(compilation.id, *view, compilation.rank)
