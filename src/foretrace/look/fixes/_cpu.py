"""The step of a program that a CPU runs: what computes in it, and what takes a share of it away.

A CPU does one thing after another, so the graph of its step is host time alone. bfloat16 is not
proposed: most CPUs have no units for it.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from foretrace.look.fixes._changes import Proposal, Stretches, of_each, shown
from foretrace.look.fixes._step import Step
from foretrace.trace import replay
from foretrace.trace.cpu_ops import bare, computing_ops
from foretrace.trace.intervals import Ints
from foretrace.trace.replay import GraphChange, ProfilerCost, ReplayGraph
from foretrace.work.costs import OpCall, Tensor

COST = ProfilerCost(op=1_200)  # without a GPU to watch (torch 2.13)
MATMULS = frozenset({"addmm", "mm", "mv", "addmv", "bmm", "dot"})
Shares = tuple[float, float, float]  # of a time that goes: expected, at best, at worst


class CpuStep(Step):
    """The typical step of a CPU."""

    on_cpu = True

    @cached_property
    def usual(self) -> ReplayGraph:
        """The graph with the host times that it has without the profiler."""
        return replay.without_profiler(self.trace, self.graph, COST)

    @cached_property
    def computing(self) -> Ints:
        """The ops that compute, in order of time."""
        return self.in_order(np.flatnonzero(computing_ops(self.trace)[0] & self.inside))

    @cached_property
    def arguments(self) -> dict[int, OpCall]:
        """Those of them whose arguments were recorded."""
        found = {event: self.call(event) for event in self.computing.tolist()}
        return {event: call for event, call in found.items() if call.dims}

    def bare(self, event: int) -> str:
        """The name of an op without its namespace."""
        return bare(self.name(event))

    def took_ns(self, events: list[int]) -> float:
        """The recorded time of these ops."""
        return float(self.trace.host.length[events].sum()) if events else 0.0

    def together(self, events: list[int], most: int) -> Stretches:
        """The time of these events, in order, and of Python between two that are this close."""
        host, after = self.trace.host, np.array(events[1:], np.int64)
        ended = np.maximum.accumulate(host.end[events[:-1]]) if len(after) else after
        close = host.start[after] - ended < most
        pauses = zip(ended[close].tolist(), host.start[after[close]].tolist(), strict=True)
        return (*self.stretches(events), *pauses)

    def proposal(
        self,
        order: str,
        why: str,
        events: list[int],
        shares: Shares,
        risk: str = "",
        stretches: Stretches | None = None,
    ) -> Proposal:
        """A change after which these shares of the time of some events are gone."""
        removed = self.stretches(events) if stretches is None else stretches
        changes = of_each(lambda share: GraphChange(removed, 1 - share), shares)
        return Proposal(order, why, *changes, risk=risk, events=shown(events))


def dense(call: OpCall) -> list[Tensor]:
    """Tensor arguments with dimensions."""
    return [each for each in call.every_tensor() if each.dims]


def elements(call: OpCall) -> int:
    """The size of the largest of them."""
    return max((each.elements for each in dense(call)), default=0)
