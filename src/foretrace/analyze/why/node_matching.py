"""The graph nodes of calls that provenance does not name: backward graphs, and older logs.

Three records lead from a call to its nodes. The fusion log lists the origins of every scheduler
node, and the scheduler's lists say which node writes a buffer. The comments above a kernel hold the
graph nodes of its first call. Inductor numbers its buffers in the order of the graph, so that the
library calls of one op, in the order of the buffers that they write, are the nodes of that op in
the order of the graph; their number and their sizes must agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from foretrace.analyze.why.accesses import UNSIZED
from foretrace.analyze.why.choices import FIRST_ROUND
from foretrace.analyze.why.libraries import base_op
from foretrace.read.compiler.records import TextRecord
from foretrace.schema.compiler import FxGraph, GraphNode, KernelCall, SchedulerNode

_CANDIDATE = re.compile(r"\s*SchedulerNode\(name='(op\d{1,9})'\), \w{1,40}\(")
_ORIGINS = re.compile(r"origins=(?:OrderedSet\()?[\[{]([^\]}]{0,20000})[\]}]")
_MEMBER = re.compile(r"op\d+")
_BUFFER = re.compile(r"buf(\d{1,9})")
_KERNEL = re.compile(r"(\w{1,1000}) = async_compile\.")
_NODE = re.compile(r"#   %(\w{1,200}) : .{0,4000}= call_function\[target=")
Nodes = dict[str, tuple[str, ...]]


def origins(texts: Iterable[TextRecord]) -> list[Nodes]:
    """For each wrapper: the post-grad nodes of every scheduler node, as the fusion log says."""
    found: list[Nodes] = []
    for record in texts:
        if record.channel != "fusion":
            continue
        for line in record.text.splitlines():
            if FIRST_ROUND.match(line):
                found.append({})
            elif found and (node := _CANDIDATE.match(line)) and node[1] not in found[-1]:
                listed = _ORIGINS.search(line)
                names = listed[1].split(", ") if listed else []
                found[-1][node[1]] = tuple(name for name in names if name.isidentifier())
    return found


class Matcher:
    """Finds the nodes of the calls of one wrapper."""

    def __init__(
        self,
        code: str,
        graph: FxGraph | None,
        scheduled: Sequence[SchedulerNode],
        origins_of: Nodes,
    ) -> None:
        self.graph, self.origins = graph, origins_of
        self.fragments = _fragments(code)
        self.writer = {buffer: node.name for node in scheduled for buffer in node.writes}

    def matched(self, calls: Sequence[KernelCall]) -> list[KernelCall]:
        """The calls with their nodes, where they have none and one of the records tells."""
        if len(calls) == 1 and not calls[0].nodes:  # all of the graph
            found = self._own(calls[0]) or tuple(node.name for node in self._nodes())
            return [replace(calls[0], nodes=found)]
        libraries = self._libraries(calls)
        return [
            call
            if call.nodes
            else replace(call, nodes=libraries.get(at, ()) if call.extern else self._own(call))
            for at, call in enumerate(calls)
        ]

    def _own(self, call: KernelCall) -> tuple[str, ...]:
        """The nodes of a generated kernel."""
        writers = [self.writer.get(name, "") for name in _written(call)]
        members = [op for writer in writers for op in _MEMBER.findall(writer)]
        nodes = [node for op in dict.fromkeys(members) for node in self.origins.get(op, ())]
        commented = self.fragments.pop(call.kernel, ())
        if all(op in self.origins for op in members) and nodes:
            return tuple(dict.fromkeys(nodes))
        return commented or tuple(dict.fromkeys(nodes))  # the log names no origin of a scan

    def _libraries(self, calls: Sequence[KernelCall]) -> dict[int, tuple[str, ...]]:
        """By place: the node of each library call."""
        by_op: dict[str, list[tuple[int, int]]] = {}
        for at, call in enumerate(calls):
            if call.extern and (number := _number(call)) is not None:
                by_op.setdefault(_op(call.kernel), []).append((number, at))
        found: dict[int, tuple[str, ...]] = {}
        for op, numbered in by_op.items():
            nodes = [node for node in self._nodes() if _op(node.target) == op]
            places = [at for _, at in sorted(numbered)]
            if len(nodes) == len(places) and all(map(_agree, nodes, (calls[at] for at in places))):
                found |= {at: (node.name,) for at, node in zip(places, nodes, strict=True)}
        return found

    def _nodes(self) -> Iterator[GraphNode]:
        yield from self.graph.nodes if self.graph else ()


def _fragments(code: str) -> Nodes:
    """The graph nodes in the comment above each kernel, in their order."""
    found: Nodes = {}
    nodes: list[str] = []
    for line in code.splitlines():
        if node := _NODE.match(line):
            nodes.append(node[1])
        elif not line.startswith("#"):
            if nodes and (kernel := _KERNEL.match(line)):
                found[kernel[1]] = tuple(nodes)
            nodes = []
    return found


def _written(call: KernelCall) -> list[str]:
    return [each.tensor.name for each in call.accesses if each.mode != "load"]


def _number(call: KernelCall) -> int | None:
    """The number of the first buffer that a call writes."""
    numbers = [int(found[1]) for name in _written(call) if (found := _BUFFER.fullmatch(name))]
    return min(numbers) if numbers else None


def _op(target: str) -> str:
    """`torch.ops.aten.mm.default` and `extern_kernels.mm` -> `mm`; in place is the same op."""
    return base_op(target).removesuffix("_")


def _agree(node: GraphNode, call: KernelCall) -> bool:
    """Whether the sizes of what a node and a call write are the same, where both are known."""
    stores = [each.tensor for each in call.accesses if each.mode != "load"]
    if node.tensor is None or len(stores) != 1:
        return True
    return not node.tensor.shape or stores[0].shape in (node.tensor.shape, UNSIZED)
