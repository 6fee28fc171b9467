"""What the work of a fused kernel would move if each op read and wrote its own tensors.

Views move nothing. An op that reads a view reads at most what lies behind it: a tensor that was
expanded is read once, a slice is read as the slice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from foretrace.names.families import VIEWS
from foretrace.schema.compiler import Compilation, FxGraph, GraphNode, NamedTensor
from foretrace.schema.documents.why import UnfusedTraffic


class Unfused:
    """The graphs of one wrapper: what each node reads and writes by itself."""

    def __init__(self, part: Compilation) -> None:
        self.post_grad = _Traffic(_graph(part, "post_grad"))
        self.dynamo = _Traffic(_graph(part, "dynamo"))
        self.decomposed = part.decompositions
        # a node in two kernels is computed twice, or in two steps as a split reduction is
        self.holders = Counter(node for call in part.calls for node in {*call.nodes})
        self.origin: dict[str, list[str]] = {}
        for op, nodes in part.decompositions.items():
            for node in nodes:
                self.origin.setdefault(node, []).append(op)

    def ops(self, nodes: Iterable[str]) -> list[str]:
        """The ops of the user's program behind these post-grad nodes, in the program's order."""
        wanted = {op for node in nodes for op in self.origin.get(node, ())}
        return [op for op in self.decomposed if op in wanted]

    def traffic(self, nodes: Sequence[str]) -> UnfusedTraffic | None:
        """None where no graph is recorded."""
        own = [node for node in nodes if self.holders[node] < 2]
        shared = sum(self.post_grad.computes(node) for node in nodes) - sum(
            self.post_grad.computes(node) for node in own
        )
        if not any(self.post_grad.computes(node) for node in own):
            return None
        ops = None if shared else self._by_ops(nodes)
        return UnfusedTraffic(ops, self.post_grad.total(own), shared)

    def _by_ops(self, nodes: Sequence[str]) -> int | None:
        """None unless all of what each op computes is inside."""
        inside = set(nodes)
        ops = []
        for op in self.ops(nodes):
            computed = [each for each in self.decomposed[op] if self.post_grad.computes(each)]
            held = [each for each in computed if each in inside]
            if held and len(held) < len(computed):
                return None
            ops += [op] if held else []
        told = {node for node in inside if self.post_grad.computes(node)}
        if not ops or any(node not in self.origin for node in told):
            return None
        if not all(op in self.dynamo.nodes for op in ops):
            return None
        return self.dynamo.total(ops)


class _Traffic:
    """One graph."""

    def __init__(self, graph: FxGraph | None) -> None:
        self.nodes = {node.name: node for node in graph.nodes} if graph else {}
        self.inputs = {each.name: each for each in graph.inputs} if graph else {}

    def computes(self, name: str) -> bool:
        """Whether a node moves data; views and what is not in the graph do not."""
        node = self.nodes.get(name)
        return node is not None and not is_view(node)

    def total(self, names: Sequence[str]) -> int | None:
        """Bytes that these nodes read and write one by one; None where one is not known."""
        chosen = [self.nodes[name] for name in names if self.computes(name)]
        parts = [self._moved(node) for node in chosen]
        known = [part for part in parts if part is not None]
        return sum(known) if known and len(known) == len(parts) else None

    def _moved(self, node: GraphNode) -> int | None:
        written = node.tensor.bytes if node.tensor else None
        read = [self._read(name) for name in dict.fromkeys(node.inputs)]
        if written is None or any(part is None for part in read):
            return None
        return written + sum(part or 0 for part in read)

    def _read(self, name: str) -> int | None:
        """Bytes behind a name: through views, the fewest on the way."""
        least: int | None = None
        for _ in range(64):  # a chain of views is short; a damaged graph may have a circle
            tensor = self._tensor(name)
            if tensor is None:
                return 0 if least is None and name not in self.nodes else least
            size = tensor.bytes
            if size is None:
                return None
            least = size if least is None else min(least, size)
            node = self.nodes.get(name)
            if node is None or not is_view(node) or not node.inputs:
                return least
            name = node.inputs[0]
        return least

    def _tensor(self, name: str) -> NamedTensor | None:
        node = self.nodes.get(name)
        return node.tensor if node else self.inputs.get(name)


def is_view(node: GraphNode) -> bool:
    """Whether a node only changes how memory is seen."""
    parts = node.target.removesuffix(".default").split(".")
    return node.target.endswith("getitem") or not VIEWS.isdisjoint(parts[-2:])


def _graph(part: Compilation, stage: str) -> FxGraph | None:
    return next((each for each in part.graphs if each.stage == stage), None)
