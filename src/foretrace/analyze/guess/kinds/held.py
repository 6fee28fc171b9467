"""What a snapshot of the allocator says: parts of the peak, and growth from step to step.

A part is what the parameters, gradients, optimizer state, activations, inputs, temporaries or
workspaces hold at the peak. Growth compares what is live at the end of two steps; less than 0.1%
of the peak for each step is no growth. The steps are those of the snapshot, counted from 1. The
snapshot is a file of its own, or lies beside the trace (`record --memory`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretrace.analyze.guess.grammar import Slot, one_phrase
from foretrace.analyze.guess.kinds import GuessKind, Measurement, Query, comparison
from foretrace.analyze.guess.windows import Unknown
from foretrace.base.units import bytes_text, plural
from foretrace.model.allocator.categories import CATEGORIES, by_category
from foretrace.model.allocator.view import MemoryView

LEAST_GROWTH = 0.001  # of the peak, each step: less is noise
FIRST = 2  # the first step makes the gradients and the optimizer's state
# the rest has names that nobody says
NAMED = CATEGORIES[: CATEGORIES.index("CUDA graph pool")]
_PARTS = {tuple(name.split()): name for name in NAMED}


def _measure(query: Query) -> Measurement:
    view = query.windows[0].evidence.trace.memory_view
    if view is None:
        raise Unknown("no snapshot of the allocator beside the trace: foretrace record --memory")
    if query.scope.kind != "trace":
        raise Unknown("a snapshot knows the peak and the steps of its own history alone")
    return _held(query, view)


def _held(query: Query, view: MemoryView) -> Measurement:
    return _growth(query, view) if "growth" in query.args else _part(query, view)


def _part(query: Query, view: MemoryView) -> Measurement:
    found = by_category(view.lives.size, view.category, view.holders)
    value = found.get(query.args["part"], 0)
    measured = f"{bytes_text(value)} of {bytes_text(view.peak_bytes)} at the peak"
    return Measurement(query.judge(value), measured)


def _growth(query: Query, view: MemoryView) -> Measurement:
    ends = _step_ends(view)
    first = int(query.args["first"].value) if "first" in query.args else FIRST
    last = int(query.args["last"].value) if "last" in query.args else len(ends)
    if not 1 <= first < last <= len(ends):
        raise Unknown(f"the snapshot has {plural(len(ends), 'whole step')}")
    before, after = (int(view.curve[ends[step - 1]]) for step in (first, last))
    most = LEAST_GROWTH * view.peak_bytes * (last - first)
    measured = f"{bytes_text(before)} after step {first}, {bytes_text(after)} after step {last}"
    return Measurement("hit" if after - before <= most else "miss", measured)


def _step_ends(view: MemoryView) -> list[int]:
    """The last event of each whole step; what follows the last one is not a step."""
    whole = len(view.facts.optimizes) if view.has_steps else len(view.steps) - 1
    return [end - 1 for _, end in view.steps[: max(whole, 0)]]


def _expected(args: Mapping[str, Any]) -> str:
    return "no growth" if "growth" in args else comparison(args)


KIND = GuessKind(
    "held",
    57,
    (
        "{part:held} [memory] {compare:compare} {amount:bytes}",
        "no growth [from] [step] [{first:count}] [to] [step] [{last:count}]",
    ),
    _measure,
    _expected,
    slots={"held": Slot(", ".join(NAMED), one_phrase(_PARTS))},
    held=_held,
)
