"""Which graph nodes, ops and lines of user code a kernel came from.

Inductor records it (`INDUCTOR_PROVENANCE=1`): its name for a call, a handle such as
`extern_kernels.mm:1`, leads to post-grad nodes, and those lead to the ops of the Dynamo graph.
Backward graphs and older versions record less. Then the fusion log (origins of every scheduler
node), the comment above a kernel (the nodes of its first call) and the order of the buffers (the
library calls of one op are its nodes in the order of the graph) name the nodes of a call.

Inductor decomposes ops: a gelu becomes eleven nodes, four of them `mul`. A kernel performs an op if
it has the last of its nodes that computes something. Views and changes of type compute nothing. A
kernel that has only other nodes of an op has begun it. What is not recorded stays empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from foretrace.base.patterns import regex
from foretrace.read.compiler.bundle import TextRecord
from foretrace.read.compiler.records import (
    Access,
    Compilation,
    CompiledLaunch,
    FxGraph,
    GraphNode,
    KernelCall,
    NamedTensor,
    SchedulerNode,
    SourceLine,
)
from foretrace.trace.compiled.accesses import UNSIZED, base_op, with_tensors
from foretrace.trace.compiled.scheduler import fusion_lines
from foretrace.trace.compiled.syntax import json_object
from foretrace.work.families import VIEWS

_SYMBOLS = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floor_divide", "@": "matmul",
    "**": "pow", "%": "remainder", "truediv": "div", "floordiv": "floor_divide", "iadd": "add",
    "isub": "sub", "imul": "mul", "itruediv": "div", "imatmul": "matmul", "mod": "remainder",
}  # fmt: skip
_PARTS = regex(r"[.:]+")
# What prepares another op and computes nothing of its own.
_PREPARES = VIEWS | {"convert_element_type", "clone", "to", "getitem", "empty", "type_as"}
_SILENT = VIEWS | {"getitem"}
ComputedOp = tuple[str, frozenset[str], str]  # its word, its nodes that compute, the last of them
_COMPUTED: dict[int, tuple[Compilation, list[ComputedOp]]] = {}


def op_word(target: str) -> str:
    """`torch.ops.aten.mul.Tensor`, `operator.mul` or `*` -> `mul`."""
    parts = [part for part in _PARTS.split(target) if part] or [target]
    after = parts.index("aten") + 1 if "aten" in parts[:-1] else -1
    name = parts[after].strip("_") or parts[after]
    return _SYMBOLS.get(name, name)


def performed(launch: CompiledLaunch) -> frozenset[str]:
    """The ops whose result a call computes, as the user wrote them; empty where not recorded."""
    return frozenset(word for word, whole in _ops(launch) if whole)


def begun(launch: CompiledLaunch) -> frozenset[str]:
    """The ops of which a call computes a part that is not the result, such as attention's mask."""
    return frozenset(word for word, whole in _ops(launch) if not whole) - performed(launch)


def _ops(launch: CompiledLaunch) -> Iterator[tuple[str, bool]]:
    """Ops of the Dynamo graph that a call computes in part, and whether it has their last node."""
    if launch.call.graph:
        return  # the names of a backward graph are not those that were mapped
    mine = set(launch.call.nodes)
    for word, computing, last in _computed(launch.compilation):
        if not mine.isdisjoint(computing):
            yield word, last in mine


def _computed(compilation: Compilation) -> list[ComputedOp]:
    """The ops of the Dynamo graph that compute something; worked out once per compilation."""
    known, found = _COMPUTED.get(id(compilation), (None, list[ComputedOp]()))
    if known is not compilation:
        if len(_COMPUTED) >= 256:  # compilations; a program has few
            _COMPUTED.clear()
        _COMPUTED[id(compilation)] = compilation, (found := list(_computing(compilation)))
    return found


def _computing(compilation: Compilation) -> Iterator[ComputedOp]:
    place = {node.name: at for at, node in enumerate(compilation.post_grad(0))}
    targets = {node.name: op_word(node.target) for node in compilation.post_grad(0)}
    words = dynamo_ops(compilation)
    for op, nodes in compilation.decompositions.items():
        computing = [node for node in nodes if targets.get(node, node) not in _PREPARES]
        word = words.get(op, "")
        if computing and word and word not in _SILENT:
            last = max(computing, key=lambda node: place.get(node, -1))
            yield word, frozenset(computing), last


def dynamo_ops(compilation: Compilation) -> dict[str, str]:
    """The ops of the user's program by the name of their node."""
    graphs = (graph for graph in compilation.graphs if graph.stage == "dynamo")
    return {node.name: op_word(node.target) for graph in graphs for node in graph.nodes}


def comes_from(launch: CompiledLaunch, file: str, line: int | None) -> bool:
    """Whether a call came from this line, or from any line of this file."""
    return any(is_at(each.file, each.line, file, line) for each in launch.lines)


def is_at(path: str, number: int, file: str, line: int | None) -> bool:
    """Whether a line is the one that `model.py` or `layers/model.py` and a number name."""
    ours, theirs = (text.replace("\\", "/").split("/") for text in (file, path))
    return ours == theirs[-len(ours) :] and line in (None, number)


def computed_lines(compilation: Compilation, call: KernelCall) -> tuple[SourceLine, ...]:
    """The lines of the nodes that compute something: a kernel may read another line's view.

    Empty where a line of the call belongs to none of its nodes: then some nodes are not recorded.
    """
    mine = set(call.nodes)
    graph = compilation.post_grad(call.graph)
    nodes = [node for node in graph if node.name in mine and node.source]
    known = {(node.source.file, node.source.line) for node in nodes if node.source}
    if any((line.file, line.line) not in known for line in call.sources):
        return ()
    lines = (node.source for node in nodes if op_word(node.target) not in _PREPARES)
    return tuple(dict.fromkeys(line for line in lines if line))


NODES, STACKS = (
    "inductor_provenance_tracking_node_mappings",
    "inductor_provenance_tracking_kernel_stack_traces",
)
_FRAME = regex(r'  File "([^"\n]+)", line (\d{1,9}), in ([^\n]*)\n? *([^\n]*)')
# torch's own code, installed or built from its sources
LIBRARY = regex(r"/(?:site|dist)-packages/torch/|/torch/(?:_dynamo|_inductor|nn)/")
_CANDIDATE = regex(r"\s*SchedulerNode\(name='(op\d{1,9})'\), \w{1,40}\(")
_ORIGINS = regex(r"origins=(?:OrderedSet\()?[\[{]([^\]}]{0,20000})[\]}]")
_BUFFER = regex(r"buf(\d{1,9})")
_KERNEL = regex(r"(\w{1,1000}) = async_compile\.")
_NODE = regex(r"#   %(\w{1,200}) : .{0,4000}= call_function\[target=")
_CALLED = {"scatter_add": "scatter_reduce", "_unsafe_index_put": "index_put"}  # by Inductor
Names = dict[str, tuple[str, ...]]


class Provenance(msgspec.Struct, frozen=True):
    """What Inductor recorded of one wrapper; empty where it recorded nothing."""

    nodes: Names = {}  # handle or kernel: post-grad nodes
    stacks: Names = {}  # handle: stack traces
    ops: Names = {}  # Dynamo node: post-grad nodes

    def of(self, call: KernelCall) -> tuple[str, ...]:
        """The post-grad nodes of a call."""
        # without handles, all calls of one library op share an entry
        by_name = () if call.extern else self.nodes.get(call.kernel)
        return self.nodes.get(call.handle) or by_name or call.nodes

    def located(self, call: KernelCall, post_grad: FxGraph | None) -> KernelCall:
        """The call with the lines of its nodes, and those of its stacks.

        A line that only nodes of other calls have is not its own.
        """
        lines = _lines_of(call.nodes, post_grad)
        others = [node for node in self.of(call) if node not in call.nodes]
        foreign = {(each.file, each.line) for each in _lines_of(others, post_grad)}
        foreign -= {(each.file, each.line) for each in lines}
        stacks = _lines_in(self.stacks.get(call.handle, ()))
        lines += [each for each in stacks if (each.file, each.line) not in foreign]
        return replace(call, sources=_distinct(lines) or call.sources)


def named(calls: Iterable[KernelCall], first: FxGraph | None, ops: Names) -> list[KernelCall]:
    """The calls; one without lines gets those of the ops behind its nodes or its comment."""
    found = []
    for call in calls:
        before = [op for op, nodes in ops.items() if set(nodes) & set(call.nodes)]
        lines = [] if call.sources else _lines_of(before or call.origins, first)
        found.append(replace(call, sources=_distinct(lines)) if lines else call)
    return found


def provenance(mappings: bytes, stacks: bytes) -> Provenance:
    """Read the two artifacts."""
    found = json_object(mappings)
    return Provenance(
        _mapped(found.get("cppCodeToPost")),
        _mapped(json_object(stacks)),
        _mapped(found.get("preToPost")),
    )


def _mapped(entries: object) -> Names:
    if not isinstance(entries, dict):
        return {}
    return {
        name: tuple(str(each) for each in listed)
        for name, listed in entries.items()
        if isinstance(name, str) and isinstance(listed, list)
    }


def _lines_of(nodes: Sequence[str], graph: FxGraph | None) -> list[SourceLine]:
    known = {node.name: node.source for node in graph.nodes} if graph else {}
    return [line for name in nodes if (line := known.get(name))]


def _lines_in(stacks: Sequence[str]) -> Iterator[SourceLine]:
    """The innermost line of each stack that is not torch's own."""
    for stack in stacks:
        frames = [found for found in _FRAME.finditer(stack) if not LIBRARY.search(found[1])]
        if frames:
            file, line, function, code = frames[-1].groups()
            yield SourceLine(file, int(line), function.strip(), code.strip())


def _distinct(lines: Sequence[SourceLine]) -> tuple[SourceLine, ...]:
    """Each line once, in order; of two records of a line, the one with its code."""
    found: dict[tuple[str, int], SourceLine] = {}
    for line in lines:
        place = (line.file, line.line)
        if place not in found or (line.code and not found[place].code):
            found[place] = line
    return tuple(found.values())


def origins(texts: Iterable[TextRecord]) -> list[Names]:
    """For each wrapper: the post-grad nodes of every scheduler node, as the fusion log says."""
    found: list[Names] = []
    for graph, line in fusion_lines(texts):
        if graph == len(found):
            found.append({})
        if found and (node := _CANDIDATE.match(line)) and node[1] not in found[-1]:
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
        origins_of: Names,
    ) -> None:
        self.nodes, self.origins = graph.nodes if graph else (), origins_of
        self.fragments: Names = {}
        nodes: list[str] = []
        for line in code.splitlines():
            if node := _NODE.match(line):
                nodes.append(node[1])
            elif not line.startswith("#"):
                if nodes and (kernel := _KERNEL.match(line)):
                    self.fragments[kernel[1]] = tuple(nodes)
                nodes = []
        self.writer = {buffer: node.name for node in scheduled for buffer in node.writes}

    def matched(self, calls: Sequence[KernelCall]) -> list[KernelCall]:
        """The calls, each with its nodes where a record names them."""
        if len(calls) == 1 and not calls[0].nodes:  # all of the graph
            found = self._own(calls[0]) or tuple(node.name for node in self.nodes)
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
        writers = [self.writer.get(name, "") for name in call.stored]
        members = [op for writer in writers for op in re.findall(r"op\d+", writer)]
        nodes = [node for op in dict.fromkeys(members) for node in self.origins.get(op, ())]
        commented = self.fragments.pop(call.kernel, ())
        if all(op in self.origins for op in members) and nodes:
            return tuple(dict.fromkeys(nodes))
        return commented or tuple(dict.fromkeys(nodes))  # the log names no origin of a scan

    def _libraries(self, calls: Sequence[KernelCall]) -> dict[int, tuple[str, ...]]:
        """By place: the node of each library call."""
        by_op: dict[str, list[tuple[int, int]]] = {}
        for at, call in enumerate(calls):
            written = [int(buf[1]) for name in call.stored if (buf := _BUFFER.fullmatch(name))]
            if call.extern and written:
                by_op.setdefault(_op(call.kernel), []).append((min(written), at))
        found: dict[int, tuple[str, ...]] = {}
        for op, numbered in by_op.items():
            nodes = [node for node in self.nodes if _op(node.target) == op]
            places = [at for _, at in sorted(numbered)]
            if len(nodes) == len(places) and all(map(_agree, nodes, (calls[at] for at in places))):
                found |= {at: (node.name,) for at, node in zip(places, nodes, strict=True)}
        return found


def credited(calls: Sequence[KernelCall], graph: FxGraph | None) -> list[KernelCall]:
    """The calls, each node with the library call that performs it.

    A library that writes in place needs its operand in memory. Inductor lists the library's node
    with the kernel that puts it there, and that kernel's nodes with the library's call.
    """
    ops = {node.name: _op(node.target) for node in graph.nodes} if graph else {}
    own = [
        {node for node in call.nodes if call.extern and ops.get(node) == _op(call.kernel)}
        for call in calls
    ]
    libraries = set().union(*own)
    generated = {node for call in calls if not call.extern for node in call.nodes} - libraries
    found = []
    for call, mine in zip(calls, own, strict=True):
        others = generated if mine else libraries if not call.extern else set()
        kept = tuple(node for node in call.nodes if node not in others)
        found.append(replace(call, nodes=kept or call.nodes))
    return found


def _op(target: str) -> str:
    """`torch.ops.aten.mm.default` and `extern_kernels.mm` -> `mm`; in place is the same op."""
    op = base_op(target).removesuffix("_")
    return _CALLED.get(op, op)


def _agree(node: GraphNode, call: KernelCall) -> bool:
    """Whether the sizes of what a node and a call write are the same, where both are known."""
    stores = [each.tensor for each in call.accesses if each.mode != "load"]
    if node.tensor is None or len(stores) != 1:
        return True
    return not node.tensor.shape or stores[0].shape in (node.tensor.shape, UNSIZED)


def typed(calls: Sequence[KernelCall], graph: FxGraph | None) -> list[KernelCall]:
    """The calls of a wrapper, with the types that the nodes of its post-grad graph have."""
    results = _results(graph)
    types: dict[str, str] = {}
    found = []
    for each in calls:
        made = [tensor for node in each.nodes for tensor in results.get(node, ())]
        call = _sized(each, made)
        for access in call.accesses:
            types[access.tensor.name] = types.get(access.tensor.name) or _type_of(access, made)
        if call.extern and not all(access.tensor.dtype for access in call.accesses):
            tensors = [replace(a.tensor, dtype=types[a.tensor.name]) for a in call.accesses]
            call = with_tensors(call, tensors)
        found.append(call)
    return found


def _sized(call: KernelCall, made: Sequence[NamedTensor]) -> KernelCall:
    """A result whose sizes the wrapper does not state has those of the node, if it makes one."""
    if len(made) != 1 or not any(access.tensor.shape == UNSIZED for access in call.accesses):
        return call
    tensors = [
        replace(made[0], name=access.tensor.name)
        if access.tensor.shape == UNSIZED and access.mode != "load"
        else access.tensor
        for access in call.accesses
    ]
    return with_tensors(call, tensors)


def _results(graph: FxGraph | None) -> dict[str, list[NamedTensor]]:
    """What a node makes: its tensor, or the parts that `getitem` takes of it."""
    found: dict[str, list[NamedTensor]] = {}
    for node in graph.nodes if graph else ():
        maker = node.inputs[0] if node.target == "operator.getitem" and node.inputs else node.name
        if node.tensor is not None:
            found.setdefault(maker, []).append(node.tensor)
    return found


def _type_of(access: Access, made: Sequence[NamedTensor]) -> str:
    """The one type that a result of this shape and these strides has."""
    if access.tensor.dtype or access.mode == "load":
        return access.tensor.dtype
    types = {tensor.dtype for tensor in made if _same_layout(access.tensor, tensor)}
    return types.pop() if len(types) == 1 else ""


def _same_layout(one: NamedTensor, other: NamedTensor) -> bool:
    """Whether sizes and recorded strides agree; the stride of a single element says nothing."""
    strides = zip(one.shape, one.stride, other.stride, strict=False)
    return one.shape == other.shape and all(a == b for size, a, b in strides if size != 1)
