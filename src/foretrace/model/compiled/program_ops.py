"""Which ops of the user's program a compiled kernel performs, and from which lines they come.

Inductor decomposes ops: a gelu becomes eleven nodes, four of them `mul`. So this module maps the
nodes of a kernel back to the ops of the Dynamo graph. A kernel performs an op if it has the last of
its nodes that computes something. Views and changes of type compute nothing. A kernel that has only
other nodes of an op has begun it. Where the records do not map an op, the answer is empty.
"""

from __future__ import annotations

from collections.abc import Iterator

from foretrace.base.patterns import regex
from foretrace.names.families import VIEWS
from foretrace.schema.compiler import (
    Compilation,
    CompiledLaunch,
    CompilerRun,
    KernelCall,
    SourceLine,
)

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
_REMEMBERED = 256  # compilations; a program has few
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
    found = _COMPUTED.get(id(compilation))
    if found is None or found[0] is not compilation:
        if len(_COMPUTED) >= _REMEMBERED:
            _COMPUTED.clear()
        found = _COMPUTED[id(compilation)] = compilation, list(_computing(compilation))
    return found[1]


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


def line_ops(run: CompilerRun, file: str, line: int | None) -> frozenset[str]:
    """The ops that the user's program has in one line, or in any line of a file, as compiled."""
    return frozenset(
        op_word(node.target)
        for compilation in run.compilations
        for graph in compilation.graphs
        for node in graph.nodes
        if graph.stage == "dynamo" and node.source
        if is_at(node.source.file, node.source.line, file, line)
    )


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
    nodes = [
        node for node in compilation.post_grad(call.graph) if node.name in mine and node.source
    ]
    known = {(node.source.file, node.source.line) for node in nodes if node.source}
    if any((line.file, line.line) not in known for line in call.sources):
        return ()
    lines = (node.source for node in nodes if op_word(node.target) not in _PREPARES)
    return tuple(dict.fromkeys(line for line in lines if line))
