"""What another run of the same program made of two kernels: `mode="max-autotune"`, for example.

Two runs of one program have the same post-grad graph, whatever the mode: its nodes have the same
names, and each run says which kernels compute them.
"""

from __future__ import annotations

from functools import cached_property

from foretrace.analyze.why.reasons import not_fused
from foretrace.schema.compiler import Compilation, CompilerRun, Elsewhere, KernelCall, Separation

Graph = tuple[tuple[str, str], ...]  # names and targets of the nodes


class OtherRun:
    """A second run, by its graphs."""

    def __init__(self, run: CompilerRun) -> None:
        self.run = run
        self._separations: dict[int, tuple[Separation, ...]] = {}

    def made_of(self, one: Separation, mine: Compilation) -> Elsewhere | None:
        """What this run made of a separation of a compilation; None where it has no such graph."""
        same = self._graphs.get((one.graph, _graph(mine, one.graph)))
        if same is None or one.a_call is None or one.b_call is None:
            return None
        a, b = set(mine.calls[one.a_call].nodes), set(mine.calls[one.b_call].nodes)
        calls = [(place, call) for place, call in enumerate(same.calls) if call.graph == one.graph]
        does_a = {place: call for place, call in calls if set(call.nodes) & (a - b)}
        does_b = {place: call for place, call in calls if set(call.nodes) & (b - a)}
        # a template lists the nodes of its operands, too: another kernel computes them
        fused = next(iter(_names(does_a)), "") if set(does_a) == set(does_b) else ""
        apart = (
            each
            for each in self._apart(same)
            if not fused and each.a_call in does_a and each.b_call in does_b
        )
        still = next(apart, None)
        why = (still.reason, still.inductor) if still else ()
        return Elsewhere(_names(does_a), _names(does_b), fused, *why)

    @cached_property
    def _graphs(self) -> dict[tuple[int, Graph], Compilation]:
        found: dict[tuple[int, Graph], Compilation] = {}
        for each in self.run.compilations:
            for place in range(len(each.code)):
                if nodes := _graph(each, place):
                    found.setdefault((place, nodes), each)
        return found

    def _apart(self, same: Compilation) -> tuple[Separation, ...]:
        if id(same) not in self._separations:
            self._separations[id(same)] = not_fused(same)
        return self._separations[id(same)]


def _graph(compilation: Compilation, graph: int) -> Graph:
    found = (
        each
        for each in compilation.graphs
        if each.stage == "post_grad" and each.graph in (None, graph)
    )
    return tuple((node.name, node.target) for each in found for node in each.nodes)


def _names(calls: dict[int, KernelCall]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(call.kernel for call in calls.values()))
