"""What a user can change, and what a step takes then: one file per fix.

A file declares its fix with `@fix(...)`; its docstring is the manual. The function looks at a
typical step and yields proposals: the order to the user, the evidence, and what changes in the
graph of the step. The graph then runs again, and its time ranks the proposals. Adding a file is all
it takes; other packages bring fixes through the entry point group `foretrace.fixes`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache, reduce

from msgspec import Struct

from foretrace.analyze.fixes._changes import Proposal, both
from foretrace.analyze.fixes._step import Fix, Step
from foretrace.base import budget, plugins
from foretrace.base.errors import LimitError
from foretrace.model import replay
from foretrace.model.replay import GraphChange, ReplayGraph
from foretrace.schema.documents.look import FixEntry

__all__ = ["Fix", "FixPrediction", "Predicted", "Proposal", "both", "fixes", "predict"]

# A fix that brings less of the step than this is not worth a line.
WORTH = 0.03
# Host times without the profiler: what two processes of one program differ by, and the fit's error.
HOST = (0.75, 1.3)
GPU = (0.95, 1.05)  # GPU times of two recordings
ENOUGH = 0.5  # of what a general fix brings: a cause that brings this much comes first
LITTLE = 0.25  # of what a blocked fix brings: a fix that brings less does not come before it
CONTAINED = 0.5  # of the GPU time that a fix changes: done before, it is not worth a second order
MOST_CALLS = 200_000  # in a step that is replayed


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
    found = plugins.declared(sys.modules[__name__], "_find", Fix, "foretrace.fixes")
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
