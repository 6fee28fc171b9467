"""Gated MLPs in compiled code that libraries and a pointwise kernel compute part by part.

Dynamo's graph shows them as the program wrote them: two linear layers of one input, an activation
of the first times the second, and a third linear layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from foretrace.analyze.why.measured import Ran
from foretrace.model.compiled.assemble import parts
from foretrace.schema.compiler import Compilation, GraphNode, KernelCall
from foretrace.schema.documents.why import GatedMlp

ACTIVATIONS = frozenset(["gelu", "silu", "relu"])

Nodes = Mapping[str, GraphNode]


def gated_mlps(compilation: Compilation, ran: Ran) -> Iterator[GatedMlp]:
    """Every gated MLP of a graph's forward pass, where matmuls of a library compute it."""
    graph = compilation.graph_at("dynamo")
    forward = next(iter(parts(compilation)), None)
    if graph is None or forward is None:
        return
    nodes = {node.name: node for node in graph.nodes}
    for down in graph.nodes:
        found = _parts(nodes, down)
        inside = {each for node in found for each in forward.decompositions.get(node.name, ())}
        calls = [call for call in forward.calls if inside.intersection(call.nodes)]
        if found and sum(call.extern for call in calls) >= len(found) - 2:
            yield _entry(compilation, found, calls, ran)


def _parts(nodes: Nodes, down: GraphNode) -> list[GraphNode]:
    """Gate, up, activation, product and down, if a node is the last of these; else nothing."""
    middle = nodes.get(down.inputs[0]) if _op(down) == "linear" and len(down.inputs) == 2 else None
    if middle is None or _op(middle) not in ("mul", "imul") or len(middle.inputs) != 2:
        return []
    for first, second in (middle.inputs, middle.inputs[::-1]):
        act, up = nodes.get(first), nodes.get(second)
        gate = nodes.get(act.inputs[0]) if act and _op(act) in ACTIVATIONS else None
        linear = gate and up and _op(gate) == _op(up) == "linear"
        if act and gate and up and linear and gate.inputs[0] == up.inputs[0]:
            found = [gate, up, act, middle, down]
            return found if len(gate.inputs) == len(up.inputs) == 2 else []
    return []


def _op(node: GraphNode) -> str:
    """`linear` for `torch._C._nn.linear`."""
    return node.target.rpartition(".")[2]


def _entry(
    compilation: Compilation, found: list[GraphNode], calls: list[KernelCall], ran: Ran
) -> GatedMlp:
    gate, _, act, _, down = found
    hidden, out = (node.tensor.shape if node.tensor else () for node in (gate, down))
    known = [size for size in (*hidden, *out) if isinstance(size, int)]
    size = None
    if hidden and out and len(known) == len(hidden) + len(out):
        size = prod(known[: len(hidden) - 1]), known[-1], known[len(hidden) - 1]
    taken = ran.of(calls).total_ns
    names = [call.name for call in calls]
    return GatedMlp(compilation.id, _op(act), size, names, taken, gate.source, compilation.rank)
