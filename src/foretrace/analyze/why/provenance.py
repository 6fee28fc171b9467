"""Which graph nodes and which lines of user code a kernel came from.

Inductor records it (`INDUCTOR_PROVENANCE=1`): its names for a call, a handle such as
`extern_kernels.mm:1`, lead to post-grad nodes, and those to the ops of the Dynamo graph. Backward
graphs and older versions record less. The comments of the generated code then name the nodes, and
the post-grad graph has the line of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from foretrace.schema.compiler import FxGraph, KernelCall, SourceLine

NODES, STACKS = (
    "inductor_provenance_tracking_node_mappings",
    "inductor_provenance_tracking_kernel_stack_traces",
)
_FRAME = re.compile(r'  File "([^"\n]+)", line (\d{1,9}), in ([^\n]*)\n? *([^\n]*)')
_LIBRARY = re.compile(r"/(?:site|dist)-packages/torch/")
Mapped = dict[str, tuple[str, ...]]


class Provenance(msgspec.Struct, frozen=True):
    """What Inductor recorded of one wrapper; empty where it recorded nothing."""

    nodes: Mapped = {}  # handle or kernel: post-grad nodes
    stacks: Mapped = {}  # handle: stack traces
    ops: Mapped = {}  # Dynamo node: post-grad nodes

    def of(self, call: KernelCall) -> tuple[str, ...]:
        """The post-grad nodes of a call."""
        # without handles, all calls of one library op share an entry
        by_name = () if call.extern else self.nodes.get(call.kernel)
        return self.nodes.get(call.handle) or by_name or call.nodes

    def located(self, call: KernelCall, post_grad: FxGraph | None) -> KernelCall:
        """The call with the lines of its nodes, and those of its stacks."""
        lines = [*_lines_of(call.nodes, post_grad), *_lines_in(self.stacks.get(call.handle, ()))]
        return replace(call, sources=_distinct(lines) or call.sources)


def named(calls: Iterable[KernelCall], first: FxGraph | None, ops: Mapped) -> list[KernelCall]:
    """Calls without lines get those of the ops that their nodes or the comment above come from."""
    found = []
    for call in calls:
        before = [op for op, nodes in ops.items() if set(nodes) & set(call.nodes)]
        lines = [] if call.sources else [*_lines_of(before or call.origins, first)]
        found.append(replace(call, sources=_distinct(lines)) if lines else call)
    return found


def provenance(mappings: bytes, stacks: bytes) -> Provenance:
    """Read the two artifacts."""
    found = _decoded(mappings)
    return Provenance(
        _mapped(found.get("cppCodeToPost")),
        _mapped(_decoded(stacks)),
        _mapped(found.get("preToPost")),
    )


def _decoded(payload: bytes) -> Mapping[str, Any]:
    try:
        found = msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _mapped(entries: object) -> Mapped:
    if not isinstance(entries, dict):
        return {}
    return {
        name: tuple(str(each) for each in listed)
        for name, listed in entries.items()
        if isinstance(name, str) and isinstance(listed, list)
    }


def _lines_of(nodes: Sequence[str], graph: FxGraph | None) -> Iterator[SourceLine]:
    known = {node.name: node.source for node in graph.nodes} if graph else {}
    for name in nodes:
        if line := known.get(name):
            yield line


def _lines_in(stacks: Sequence[str]) -> Iterator[SourceLine]:
    """The innermost line of each stack that is not torch's own."""
    for stack in stacks:
        frames = [found for found in _FRAME.finditer(stack) if not _LIBRARY.search(found[1])]
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
