"""Where a trace runs compiled graphs: the calls of each, and the ops directly inside."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from msgspec import Struct

from foretrace.model.intervals import Bools, Ints
from foretrace.model.trace import Trace
from foretrace.schema.compiled import FUNCTION, GRAPH, REGION, version
from foretrace.schema.gaps import filled
from foretrace.schema.tables import NONE


class GraphRun(Struct, frozen=True):
    """One run of a compiled graph: its row, the compile id around it, and its ops in order."""

    row: int
    compile_id: str  # "" where no row around it says
    backward: bool
    ops: tuple[int, ...]


class Regions:
    """The rows `## Call CompiledFxGraph` of a trace, and what was launched below each."""

    def __init__(self, trace: Trace) -> None:
        self.trace, host = trace, trace.host
        self.is_graph: Bools = host.named(lambda name: name.startswith(GRAPH)) & host.is_region
        self.is_version: Bools = host.named(lambda name: name.startswith(REGION)) & host.is_op
        gpu = trace.gpu
        linked = gpu.launch >= 0
        self.graph_of_work: Ints = np.full(len(gpu), -1, np.int64)
        self.graph_of_work[linked] = host.nearest(gpu.launch[linked], self.is_graph)

    def runs(self) -> list[GraphRun]:
        """Every run in the order of time."""
        rows = np.flatnonzero(self.is_graph)
        order = rows[np.argsort(self.trace.host.start[rows], kind="stable")]
        ops = self._ops_of_graphs()
        return [self._run(int(row), ops.get(int(row), [])) for row in order]

    def _run(self, row: int, ops: list[int]) -> GraphRun:
        host, at = self.trace.host, np.array([row])
        named = int(host.nearest(at, self.is_version)[0])
        function = int(host.nearest(at, self.functions)[0])
        backward = function >= 0 and "Backward" in host.names[host.name[function]]
        if named < 0 and function >= 0:
            forward = self._forward.get(self.sequence.get(function, NONE), -1)
            named = (
                int(host.nearest(np.array([forward]), self.is_version)[0]) if forward >= 0 else -1
            )
        found = version(host.names[host.name[named]]) if named >= 0 else None
        text = f"{found[0]}/{found[1]}" if found else ""
        return GraphRun(row, text, backward, tuple(ops))

    @cached_property
    def functions(self) -> Bools:
        """Rows of autograd: `CompiledFunction` and `CompiledFunctionBackward`."""
        host = self.trace.host
        return host.is_op & host.named(lambda name: name.startswith(FUNCTION))

    @cached_property
    def sequence(self) -> dict[int, int]:
        """The sequence number of autograd ops: a backward op has that of its forward op."""
        table = self.trace.tables["autograd"]
        pairs = zip(table["event"].to_list(), filled(table["sequence"], NONE), strict=True)
        return {event: int(number) for event, number in pairs if number != NONE}

    @cached_property
    def _forward(self) -> dict[int, int]:
        host = self.trace.host
        rows = [row for row in np.flatnonzero(self.functions).tolist() if row in self.sequence]
        names = {row: host.names[host.name[row]] for row in rows}
        return {self.sequence[row]: row for row in rows if "Backward" not in names[row]}

    def _ops_of_graphs(self) -> dict[int, list[int]]:
        """The ops of each graph that no other op of it called, in the order of time."""
        host = self.trace.host
        ops = np.flatnonzero(host.is_op & host.lasting)
        graph = host.nearest(ops, self.is_graph)
        ops, graph = ops[graph >= 0], graph[graph >= 0]
        outermost = self._above(ops) != graph
        found: dict[int, list[int]] = {}
        ops, graph = ops[outermost], graph[outermost]
        order = np.argsort(host.start[ops], kind="stable")
        for op, row in zip(ops[order].tolist(), graph[order].tolist(), strict=True):
            found.setdefault(row, []).append(op)
        return found

    def _above(self, ops: Ints) -> Ints:
        """The graph of the op that called each op, or -1."""
        host = self.trace.host
        above = _nearest(self, host.parent[ops].astype(np.int64), host.is_op)
        return _nearest(self, above, self.is_graph)

    def outermost(self, rows: Ints) -> Ints:
        """For each GPU operation the outermost op of its graph that led to it, or -1."""
        op, graph = self.trace.gpu.op[rows], self.graph_of_work[rows]
        op = np.where(_nearest(self, op, self.is_graph) == graph, op, -1)
        while True:
            parent = np.where(op >= 0, self.trace.host.parent[np.maximum(op, 0)], -1)
            above = _nearest(self, parent.astype(np.int64), self.trace.host.is_op)
            inside = (above >= 0) & (_nearest(self, above, self.is_graph) == graph)
            if not inside.any():
                return op
            op = np.where(inside, above, op)


def _nearest(regions: Regions, rows: Ints, chosen: Bools) -> Ints:
    """As `Host.nearest`, where -1 stays -1."""
    found = np.full(len(rows), -1, np.int64)
    known = rows >= 0
    found[known] = regions.trace.host.nearest(rows[known], chosen)
    return found
