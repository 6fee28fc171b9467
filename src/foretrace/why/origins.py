"""Which ops of the user's program a compiled kernel performs, and from which lines they come.

Inductor decomposes: a gelu becomes eleven nodes, among them four `mul`. So the nodes of a kernel
are followed back to the ops that Dynamo saw. An op counts where the kernel has one of its nodes
that computes something: views and changes of type alone do not. Where nothing was recorded about an
op, there is no answer, and names of kernels are what is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from foretrace.families import VIEWS
from foretrace.model.trace import Trace
from foretrace.schema.compiler import (
    Compilation,
    CompiledLaunch,
    CompilerRun,
    GraphNode,
    KernelCall,
)

_SYMBOLS = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floor_divide", "@": "matmul",
    "**": "pow", "%": "remainder", "truediv": "div", "floordiv": "floor_divide", "iadd": "add",
    "isub": "sub", "imul": "mul", "itruediv": "div", "imatmul": "matmul", "mod": "remainder",
}  # fmt: skip
_PARTS = re.compile(r"[.:]+")
# What prepares another op and computes nothing of its own.
_PREPARES = VIEWS | {"convert_element_type", "clone", "to", "getitem", "empty", "type_as"}


def op_word(target: str) -> str:
    """`torch.ops.aten.mul.Tensor`, `operator.mul` or `*` -> `mul`."""
    parts = [part for part in _PARTS.split(target) if part] or [target]
    after = parts.index("aten") + 1 if "aten" in parts[:-1] else -1
    name = parts[after].strip("_") or parts[after]
    return _SYMBOLS.get(name, name)


def performed(launch: CompiledLaunch) -> frozenset[str]:
    """The ops that a call performs, as the user wrote them; empty where that is not recorded."""
    known = _ops(launch.compilation, launch.call)
    return frozenset(op for op, nodes in known.items() if any(map(_computes, nodes)))


def _ops(compilation: Compilation, call: KernelCall) -> Mapping[str, list[str]]:
    """Each op of the Dynamo graph that has nodes in the call, with the targets of these nodes."""
    if call.graph:
        return {}  # the names of a backward graph are not those that were mapped
    targets = {node.name: op_word(node.target) for node in _nodes(compilation, call.graph)}
    words = {
        node.name: op_word(node.target)
        for graph in compilation.graphs
        if graph.stage == "dynamo"
        for node in graph.nodes
    }
    mine, found = set(call.nodes), dict[str, list[str]]()
    for op, nodes in compilation.decompositions.items():
        inside = [targets.get(node, node) for node in nodes if node in mine]
        if inside:
            found.setdefault(words.get(op, ""), []).extend(inside)
    found.pop("", None)
    return found


def _computes(target: str) -> bool:
    return target not in _PREPARES


def _nodes(compilation: Compilation, graph: int) -> Iterator[GraphNode]:
    """Nodes of the post-grad graph of one wrapper."""
    for each in compilation.graphs:
        if each.stage == "post_grad" and each.graph in (None, graph):
            yield from each.nodes


def line_ops(run: CompilerRun, file: str, line: int | None) -> frozenset[str]:
    """The ops that compiled graphs have from one line, or from any line of a file."""
    return frozenset(
        op_word(node.target)
        for compilation in run.compilations
        for graph in compilation.graphs
        for node in graph.nodes
        if node.source and is_at(node.source.file, node.source.line, file, line)
    )


def comes_from(launch: CompiledLaunch, file: str, line: int | None) -> bool:
    """Whether a call came from this line, or from any line of this file."""
    return any(is_at(each.file, each.line, file, line) for each in launch.call.sources)


def is_at(path: str, number: int, file: str, line: int | None) -> bool:
    """Whether a line is the one that `model.py` or `layers/model.py` and a number name."""
    ours, theirs = (text.replace("\\", "/").split("/") for text in (file, path))
    return ours == theirs[-len(ours) :] and line in (None, number)


def launched(trace: Trace) -> Mapping[int, CompiledLaunch]:
    """By event: the call that made it."""
    from foretrace import why

    run = why.of(trace)
    if run is None:
        return {}
    found = {}
    for calls in why.joined(trace).calls:
        compilation = run.compilations[calls.compilation]
        call = compilation.calls[calls.call]
        for ran in calls.runs:
            launch = CompiledLaunch(compilation, ran.call or call)
            found.update(dict.fromkeys((*ran.kernels, *ran.copies), launch))
    return found
