"""Kernels of one graph that share data: one writes what the other reads, or both read an input.

Each read counts in one pair: with the kernel that wrote the buffer, or, if it is an input of the
graph and large, with the kernel that read it before. The nodes are those of the scheduler after
fusion. Without that list, the calls of the wrapper have the same reads and writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from foretrace.model.compiled.scheduler import elements, split
from foretrace.schema.compiler import (
    ITEM_BYTES,
    Compilation,
    KernelCall,
    NamedTensor,
    SchedulerNode,
)

# Below 1 MiB a second read is served by the cache of any current GPU, and costs less than a launch.
LARGE = 1 << 20
NO_KERNEL = frozenset({"nop", "unpack"})
_REUSE = re.compile(r"\s*(\w+) = (?:reinterpret_tensor\()?(\w+)[,;].*# reuse")
_RETURN = re.compile(r"\s*return \((.*)")
_NAME = re.compile(r"\b(?:buf|arg|primals_|tangents_)\w*")


class Neighbours(Struct, frozen=True):
    """Two nodes, the buffers through which they share data, and the bytes of both ways."""

    a: SchedulerNode
    b: SchedulerNode
    shared: tuple[NamedTensor, ...]
    written: int | None  # bytes that a need not write, and b need not read
    read: int | None
    produced: bool  # a writes what b reads
    memory: tuple[str, ...] = ()  # the shared buffers as the wrapper names them
    unwritten: tuple[str, ...] = ()  # those that nothing else needs


def neighbours(
    nodes: Sequence[SchedulerNode], inputs: Iterable[NamedTensor] = ()
) -> Iterator[Neighbours]:
    """Each pair once, in the order of the graph; `inputs` are tensors without a node's layout."""
    graph = _Graph(nodes, inputs)
    for (at, to), (made, both) in sorted(graph.pairs().items()):
        a, b = graph.nodes[at], graph.nodes[to]
        tensors = {name: graph.tensors.get(name) or NamedTensor(name) for name in (*made, *both)}
        reads = [_read(b, tensors[name]) for name in made]
        reads += [_least(_read(a, tensors[name]), _read(b, tensors[name])) for name in both]
        spared = [name for name in made if graph.only(name, to)]
        written = _sum([tensors[name].bytes for name in spared])
        memory = [tuple(graph.memory.get(n, n) for n in names) for names in (tensors, spared)]
        shared = tuple(tensors.values())
        yield Neighbours(a, b, shared, written, _sum(reads), bool(made), *memory)


class NodeOrder:
    """The nodes of a graph by their places."""

    def __init__(self, nodes: Sequence[SchedulerNode]) -> None:
        self.nodes = nodes
        self.place = {node.name: at for at, node in enumerate(nodes)}

    def between(self, a: SchedulerNode, b: SchedulerNode) -> bool:
        """Whether a third kernel needs what `a` writes, and `b` what that one writes."""
        own, others = set(a.writes), set[str]()
        for node in self.nodes[self.place[a.name] + 1 : self.place[b.name]]:
            needs = {*node.reads, *node.waits}
            if node.kind in NO_KERNEL and own & needs:
                own.update(node.writes)
            elif (own | others) & needs:
                others.update(node.writes)
        return bool(others & {*b.reads, *b.waits})


def nodes_of_calls(compilation: Compilation, graph: int) -> tuple[SchedulerNode, ...]:
    """The calls of a wrapper as nodes, for logs without the scheduler's list."""
    code = compilation.code[graph] if graph < len(compilation.code) else ""
    reused = {each[1]: each[2] for line in code.splitlines() if (each := _REUSE.match(line))}
    returned = frozenset(returns(code))
    written: set[str] = set()
    found = []
    for place, call in enumerate(compilation.calls):
        if call.graph == graph:
            node = _node(f"call{place}", call, reused, written, returned)
            written.update(node.writes)
            found.append(node)
    return tuple(found)


def returns(code: str) -> tuple[str, ...]:
    """The tensors that a wrapper returns, in order; a view by the name of its buffer."""
    found = [match[1] for line in code.splitlines() if (match := _RETURN.match(line))]
    parts = split(found[-1].rstrip().removesuffix(")")) if found else []
    names = (_NAME.search(part) for part in parts)
    return tuple(name[0] if name else "" for name in names)


def _node(
    name: str, call: KernelCall, reused: dict[str, str], written: set[str], returned: frozenset[str]
) -> SchedulerNode:
    """A call as a node. A buffer that reuses memory holds the old data until it is written."""
    reads: dict[str, NamedTensor] = {}
    writes: dict[str, NamedTensor] = {}
    for access in call.accesses:
        tensor = access.tensor
        if access.mode != "load":
            writes[tensor.name] = tensor
        if access.mode != "store":
            held = tensor.name
            while held not in written and held in reused:
                held = reused[held]
            reads[held] = replace(tensor, name=held)
    kind = "extern" if call.extern else _kind(call.kernel)
    return SchedulerNode(
        name,
        kind,
        tuple(reads),
        tuple(writes),
        target=call.kernel if call.extern else "",
        tensors=tuple(writes.values()),
        graph=call.graph,
        operands=tuple(reads.values()),
        returned=tuple(buffer for buffer in writes if buffer in returned),
        mutates=tuple(buffer for buffer in writes if not buffer.startswith("buf")),
    )


def _kind(kernel: str) -> str:
    """What Inductor puts into the names of its kernels: `triton_red_fused_…`, `triton_tem_…`."""
    word = kernel.split("_")[1] if kernel.startswith("triton_") else ""
    kinds = {"poi": "pointwise", "per": "reduction", "red": "reduction", "tem": "template"}
    return kinds.get(word, "foreach" if word == "for" else "generated")


class _Graph:
    """The writer and the readers of each buffer; a node without a kernel is neither."""

    def __init__(self, nodes: Sequence[SchedulerNode], inputs: Iterable[NamedTensor]) -> None:
        self.made_of: dict[str, tuple[str, ...]] = {}
        self.tensors = {tensor.name: tensor for tensor in inputs}
        self.nodes: list[SchedulerNode] = []
        self.returned: set[str] = set()
        self.writer: dict[str, int] = {}
        self.memory: dict[str, str] = {}  # a name for what was changed in place: its buffer
        for node in nodes:
            for tensor in (*node.operands, *node.tensors):
                self.tensors[tensor.name] = tensor
            self._mutated(node)
            if node.kind == "nop":
                self.made_of.update(dict.fromkeys(node.writes, node.reads))
                self.returned.update(node.reads if node.returned else ())
            elif node.kind == "unpack":
                self._unpacked(node)
            else:
                self.writer.update(dict.fromkeys(node.writes, len(self.nodes)))
                self.nodes.append(node)
            self.returned.update(node.returned)
        self.readers: dict[str, list[int]] = {}
        for at, node in enumerate(self.nodes):
            for name in dict.fromkeys(part for each in node.reads for part in self._parts(each)):
                self.readers.setdefault(name, []).append(at)

    def _mutated(self, node: SchedulerNode) -> None:
        """What a library changes in place has a new name and the old memory."""
        unsized = [name for name in node.writes if name not in self.tensors]
        if len(node.mutates) == len(unsized) == 1:
            buffer = self.memory.get(node.mutates[0], node.mutates[0])
            if tensor := self.tensors.get(buffer):
                self.memory[unsized[0]] = buffer
                self.tensors[unsized[0]] = replace(tensor, name=unsized[0])

    def _unpacked(self, node: SchedulerNode) -> None:
        """The results of an extern call are its own."""
        for at in {self.writer[name] for name in node.reads if name in self.writer}:
            each = self.nodes[at]
            self.nodes[at] = replace(each, writes=each.writes + node.writes)
            self.writer.update(dict.fromkeys(node.writes, at))

    def _parts(self, name: str, depth: int = 0) -> Iterator[str]:
        """The buffers that a concatenation consists of: their writers write it."""
        if name in self.made_of and depth < 10:
            for part in self.made_of[name]:
                yield from self._parts(part, depth + 1)
        else:
            yield name

    def pairs(self) -> dict[tuple[int, int], tuple[list[str], list[str]]]:
        """By the places of two nodes: buffers that one makes, and buffers that both read."""
        found: dict[tuple[int, int], tuple[list[str], list[str]]] = {}
        for name, readers in self.readers.items():
            writer, tensor = self.writer.get(name), self.tensors.get(name)
            if writer is not None:
                for at in readers:
                    if writer < at:
                        found.setdefault((writer, at), ([], []))[0].append(name)
            elif tensor is not None and (tensor.bytes or 0) >= LARGE:
                for a, b in pairwise(readers):
                    found.setdefault((a, b), ([], []))[1].append(name)
        return found

    def only(self, name: str, reader: int) -> bool:
        """Whether nothing but this reader needs a buffer."""
        return self.readers.get(name) == [reader] and name not in self.returned


def _read(node: SchedulerNode, tensor: NamedTensor) -> int | None:
    """Bytes that a node reads of a buffer: all of it, or what its index reaches at most."""
    whole, item = tensor.bytes, ITEM_BYTES.get(tensor.dtype)
    counts = [elements(index) for name, index in node.index if name == tensor.name]
    if whole is None or item is None or not counts or None in counts:
        return whole
    return min(whole, item * sum(count for count in counts if count is not None))


def _least(a: int | None, b: int | None) -> int | None:
    known = [each for each in (a, b) if each is not None]
    return min(known) if known else None


def _sum(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
