"""What a user can change, and what a step takes then: one function per fix.

`@fix(...)` declares a function as a fix of its name; its docstring is the manual. The function
looks at a typical step and yields proposals: the order to the user, the evidence, and what changes
in the graph of the step. The graph then runs again, and its time ranks the proposals. To write it
into one of these files is all it takes; other packages bring fixes through the entry point group
`foretrace.fixes`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache, reduce

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from foretrace.base import budget, plugins
from foretrace.base.errors import LimitError
from foretrace.look.documents import Finding, FixEntry
from foretrace.look.fixes._step import CpuStep, Fix, Proposal, Step, both
from foretrace.trace import bounds, replay
from foretrace.trace.bounds import measured_spans
from foretrace.trace.cpu_ops import cpu_call, runs_on_cpu
from foretrace.trace.replay import GraphChange, ReplayGraph
from foretrace.trace.spans import Span
from foretrace.trace.trace import Trace

__all__ = ["Fix", "FixPrediction", "Predicted", "Proposal", "both", "fixes", "predict"]

# A fix that brings less of the step than this is not worth a line.
WORTH = 0.03
# Host times without the profiler: what two processes of one program differ by, and the fit's error.
HOST = (0.75, 1.3)
GPU = (0.95, 1.05)  # GPU times of two recordings
ENOUGH = 0.5  # of what a general fix brings: a cause that brings this much comes first
LITTLE = 0.25  # of what a blocked fix brings: a fix that brings less does not come before it
CONTAINED = 0.5  # of the GPU time that a fix changes: done before, it is not worth a second order


class FixPrediction(Struct, frozen=True):
    """A proposal, and the time of a step with it: expected, at best and at worst."""

    fix: str
    proposal: Proposal
    ns: float
    low_ns: float
    high_ns: float


def as_uncertain(ns: float, chosen: Sequence[FixPrediction | FixEntry]) -> tuple[float, float]:
    """The interval of a time that several fixes make: that of the most uncertain of them."""
    low = min(each.low_ns / each.ns for each in chosen)
    return ns * low, ns * max(each.high_ns / each.ns for each in chosen)


class Predicted(Struct, frozen=True):
    """The step without the profiler, and the fixes that shorten it, the best first.

    `rated` are its graphs: as expected, on a faster and on a slower machine. `every` has all fixes
    that apply, also those that bring little. `withheld` are those that the user wants not advised.
    """

    step: Step
    recorded_ns: float
    replayed_ns: float
    now_ns: float
    low_ns: float
    high_ns: float
    fixes: list[FixPrediction]
    rated: list[ReplayGraph]
    every: list[FixPrediction]
    withheld: tuple[str, ...] = ()

    def saved_ns(self, each: FixPrediction) -> float:
        """What a fix saves at best; never less than expected."""
        return max(self.now_ns - each.ns, self.low_ns - each.low_ns)

    def together(self, chosen: Sequence[FixPrediction]) -> float:
        """The time of a step with several fixes."""
        changes = [each.proposal.change for each in chosen]
        return replay.run(self.rated[0], reduce(both, changes, GraphChange()))

    def interval(self, chosen: Sequence[FixPrediction]) -> tuple[float, float]:
        """What that time may be."""
        return as_uncertain(self.together(chosen), chosen)

    def contains(self, first: FixPrediction, then: FixPrediction) -> bool:
        """Whether the first already does most of what the second would, as a compiler does."""
        before, after = first.proposal.change, then.proposal.change
        rows = after.gone | after.length.keys()
        done = rows & (before.gone | before.length.keys())
        ns = self.step.ns
        return bool(before.gone and done) and ns([*done]) >= CONTAINED * ns([*rows])


@cache
def fixes() -> tuple[Fix, ...]:
    """Every fix, by name."""
    found = plugins.declared(sys.modules[__name__], Fix, "foretrace.fixes")
    return tuple(sorted(found, key=lambda fix: fix.name))


def predict(
    step: Step,
    recorded_ns: float,
    known_ns: float | None = None,
    advises: Callable[[str], bool] = bool,
) -> Predicted:
    """The time of the step now, and with each fix. `known_ns` is its time without the profiler,
    where a run record has it. `advises` says whether the user wants to hear of a fix: all of them.
    """
    graph = step.graph
    usual, spread = step.usual, HOST
    if known_ns is not None:
        usual, spread = replay.fitted(usual, known_ns), GPU
    rated = [usual, *(replay.rated(usual, *parts) for parts in zip(spread, GPU, strict=True))]
    now, low, high = (replay.run(each) for each in rated)
    found = [_predicted(fix.name, each, rated) for fix in fixes() for each in _proposals(fix, step)]
    worth = [each for each in found if each.ns < (1 - WORTH) * now]
    withheld = tuple(each.fix for each in worth if not advises(each.fix))
    found = [each for each in found if each.fix not in withheld]
    kept = [each for each in worth if each.fix not in withheld]
    kept.sort(key=lambda each: (bool(each.proposal.first), each.ns, each.fix))
    for choose in (_cause, _blocked):
        if kept and (first := choose(kept, now)):
            kept = [first, *(each for each in kept if each is not first)]
    times = recorded_ns, replay.run(graph), now, low, high
    return Predicted(step, *times, kept, rated, found, withheld)


def _cause(ranked: list[FixPrediction], now: float) -> FixPrediction | None:
    """A cause that comes before a general fix that brings more: it may bring as much and is sure to
    bring half of it.
    """
    most, general = ranked[0], {fix.name for fix in fixes() if fix.general}
    if most.fix not in general:
        return None
    sure = [each for each in ranked if each.fix not in general and not each.proposal.first]
    enough = ENOUGH * (now - most.ns)
    causes = (each for each in sure if each.low_ns <= most.ns and now - each.ns >= enough)
    return next(causes, None)


def _blocked(ranked: list[FixPrediction], now: float) -> FixPrediction | None:
    """A blocked fix that comes before what brings little of it and does not unblock it."""
    first, most = ranked[0], next((each for each in ranked if each.proposal.first), None)
    if most is None or first.proposal.first or first.proposal.change.unwaited:
        return None
    return most if now - first.ns < LITTLE * (now - most.ns) else None


def _proposals(fix: Fix, step: Step) -> list[Proposal]:
    """What a fix proposes; one that fails proposes nothing and hides no other."""
    on_cpu = fix.on_cpu if step.on_cpu else None
    if on_cpu is None and any(not step.trace.has(need) for need in fix.needs):
        return []
    try:
        budget.check()
        return list((on_cpu or fix.find)(step))
    except (LimitError, MemoryError):
        raise
    except Exception:
        if os.environ.get("FORETRACE_DEBUG"):
            raise
        return []


def _predicted(name: str, proposal: Proposal, rated: Sequence[ReplayGraph]) -> FixPrediction:
    usual, quick, slow = rated
    expected = replay.run(usual, proposal.change)
    low = replay.run(quick, proposal.best or proposal.change)
    high = replay.run(slow, proposal.worst or proposal.change)
    return FixPrediction(name, proposal, expected, min(low, expected), max(high, expected))


MOST_WRONG = 0.1  # how far the replay of a step may be from the recorded time
SHORTER = 0.03  # than without the profiler: a step cannot be, but for what the replay rounds
CAPTURED = 0.5  # a step that captures a graph for longer is not the step that counts


def predicted(
    trace: Trace, findings: Sequence[Finding] | None = None, advises: Callable[[str], bool] = bool
) -> Predicted | None:
    """The replayed step with its fixes; None where it cannot be replayed. `findings` is what the
    rules say of the trace, where that is known; `advises` as in `predict`.
    """
    if not _complete(trace):
        return None
    span, recorded, steady, repeats = _chosen(trace)
    if _captures(trace, span):
        return None
    graph = replay.graph_of(trace, span, steady)
    if not 0 < len(graph.calls) <= 200_000 or not len(graph.rows):  # in a step that is replayed
        return None
    spent = bounds.spent(trace, span)
    known = spent.wall_ns if spent is not None and not spent.profiled else None
    step = Step(trace, graph, repeats, findings)
    found = predict(step, recorded, known, advises)
    # only where the replay gives the recorded time, and the profiler made it no shorter
    close = abs(found.replayed_ns - recorded) <= MOST_WRONG * recorded
    return found if close and 0 < found.now_ns <= (1 + SHORTER) * recorded else None


def why_not(trace: Trace) -> str:
    """Why the step of a trace is not replayed."""
    if not _complete(trace):
        return "it needs launches, GPU work and one clock"
    if _captures(trace, _chosen(trace)[0]):
        return "the host captures a CUDA graph, which runs nothing"
    return "the replay does not give the recorded time"


def _complete(trace: Trace) -> bool:
    gpu = trace.gpu
    return trace.has("gpu") and gpu.aligned and bool((gpu.launch >= 0).any())


def _chosen(trace: Trace) -> tuple[Span, float, bool, int]:
    """The step or call, its recorded time, whether one ran before it, and how many there are."""
    per, spans = measured_spans(trace)
    steady = per == "per step" and len(spans) > 1
    if steady:  # the step of median time, from the end of the one before
        times = np.diff(np.maximum.accumulate([trace.spans.window(each)[1] for each in spans]))
        middle = int(np.argsort(times, kind="stable")[(len(times) - 1) // 2])
        span, recorded = spans[middle + 1], float(times[middle])
    else:  # the call of median time, or the whole recording
        calls = sorted(spans, key=lambda span: span.cpu_ns) or [_whole(trace)]
        span = calls[len(calls) // 2]
        begin, end = trace.spans.window(span)
        recorded = float(end - begin)
    # a range may outlast all that was recorded
    last = trace.spans.window(span)[1] - trace.gpu.lag
    return replace(span, end_ns=min(span.end_ns, last)), recorded, steady, len(spans)


def _whole(trace: Trace) -> Span:
    """From the first launch to the last GPU operation, as one call: what the verdict is about."""
    host, gpu = trace.host, trace.gpu
    work = gpu.launch_order[gpu.launch[gpu.launch_order] >= 0]
    begin = int(host.start[gpu.launch[work]].min()) if len(work) else 0
    end = int(gpu.end[work][gpu.usable[work]].max(initial=begin + gpu.lag + 1)) - gpu.lag
    return Span("recording", 0, -1, begin, end, work)


def _captures(trace: Trace, span: Span) -> bool:
    """Whether the host captured a CUDA graph for most of the step: that runs nothing."""
    begin, end = np.array([span.start_ns]), np.array([max(span.end_ns, span.start_ns + 1)])
    return float(trace.host.captures.between(begin, end)[0]) > CAPTURED * float(end[0] - begin[0])


def predicted_on_cpu(trace: Trace, advises: Callable[[str], bool] = bool) -> Predicted | None:
    """The typical step of a CPU with its fixes; None where a GPU computed, or nothing did."""
    span = cpu_call(trace) if runs_on_cpu(trace) else None
    step = CpuStep(trace, replay.graph_of(trace, span, False)) if span else None
    if step is None or not len(step.computing):
        return None
    return predict(step, float(step.span.cpu_ns), advises=advises)
