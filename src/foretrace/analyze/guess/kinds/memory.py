"""Peak memory, and what a snapshot of the allocator says."""

from __future__ import annotations

import numpy as np
import polars as pl

from foretrace.analyze.guess.grammar import Slot, one_phrase
from foretrace.analyze.guess.kinds import Measurement, Query, comparison, per_window, prediction
from foretrace.analyze.guess.windows import Unknown, Window
from foretrace.base.units import bytes_text, plural
from foretrace.model.allocator.categories import CATEGORIES, by_category
from foretrace.model.allocator.view import MemoryView

_CUDA = 1  # c10::DeviceType of CUDA; ROCm reports the same


def _peak_held(query: Query, view: MemoryView) -> Measurement:
    value = int(view.reserved.max()) if "reserved" in query.args else view.peak_bytes
    return Measurement(query.judge(value), bytes_text(value))


def _by_device(window: Window, column: str) -> list[int]:
    """The most of each GPU in this window."""
    trace = window.evidence.trace
    table = trace.tables["memory"].filter(pl.col("device_type") == _CUDA, pl.col(column) > 0)
    found = []
    for (_,), part in table.group_by("device_id"):
        times, values = trace.host.start[part["event"].to_numpy()], part[column].to_numpy()
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
        if window.start_ns is not None and window.end_ns is not None:
            first, last = np.searchsorted(times, (window.start_ns, window.end_ns))
            values = values[max(first - 1, 0) : last]
        found += [int(values.max())] if len(values) else []
    return found


@prediction(
    "memory",
    55,
    "peak [reserved] memory {compare:compare} {amount:bytes}",
    held=_peak_held,
)
@per_window
def _peak(window: Window, query: Query) -> Measurement:
    """Peak GPU memory: the most that torch's allocator had given out, or had reserved, at any time.

    It comes from the memory events of `profile_memory=True`, and is the most of any GPU. In a step
    or a region, the memory that was in use when it began counts too. Without such events, and for a
    snapshot of the allocator, it is the most that was live at once in the history of the snapshot.
    """
    column = "total_reserved" if "reserved" in query.args else "total_allocated"
    devices = _by_device(window, column)
    view = window.evidence.trace.memory_view if not devices and window.whole else None
    if view is not None:
        return _peak_held(query, view)
    if not devices:
        of_cpu = window.evidence.trace.tables["memory"].height
        there = ", only those of a CPU: `foretrace memory TRACE` reads them" if of_cpu else ""
        needs = there or ": record with profile_memory=True"
        raise Unknown(f"no GPU memory events in this trace{needs}")
    window.need_whole()
    value = max(devices)
    return Measurement(query.judge(value), bytes_text(value))


LEAST_GROWTH = 0.001  # of the peak, each step: less is noise
FIRST = 2  # the first step makes the gradients and the optimizer's state
# the rest has names that nobody says
NAMED = CATEGORIES[: CATEGORIES.index("CUDA graph pool")]
_PARTS = {tuple(name.split()): name for name in NAMED}


def _held(query: Query, view: MemoryView) -> Measurement:
    if "growth" in query.args:
        return _growth(query, view)
    found = by_category(view.lives.size, view.category, view.holders)
    value = found.get(query.args["part"], 0)
    measured = f"{bytes_text(value)} of {bytes_text(view.peak_bytes)} at the peak"
    return Measurement(query.judge(value), measured)


def _growth(query: Query, view: MemoryView) -> Measurement:
    # what follows the last whole step is not a step
    whole = len(view.facts.optimizes) if view.has_steps else len(view.steps) - 1
    ends = [end - 1 for _, end in view.steps[: max(whole, 0)]]
    first = int(query.args["first"].value) if "first" in query.args else FIRST
    last = int(query.args["last"].value) if "last" in query.args else len(ends)
    if not 1 <= first < last <= len(ends):
        raise Unknown(f"the snapshot has {plural(len(ends), 'whole step')}")
    before, after = (int(view.curve[ends[step - 1]]) for step in (first, last))
    most = LEAST_GROWTH * view.peak_bytes * (last - first)
    measured = f"{bytes_text(before)} after step {first}, {bytes_text(after)} after step {last}"
    return Measurement("hit" if after - before <= most else "miss", measured)


@prediction(
    "held",
    57,
    "{part:held} [memory] {compare:compare} {amount:bytes}",
    "no growth [from] [step] [{first:count}] [to] [step] [{last:count}]",
    expected=lambda args: "no growth" if "growth" in args else comparison(args),
    slots={"held": Slot(", ".join(NAMED), one_phrase(_PARTS))},
    held=_held,
)
def _of_snapshot(query: Query) -> Measurement:
    """What a snapshot of the allocator says: parts of the peak, and growth from step to step.

    A part is what the parameters, gradients, optimizer state, activations, inputs, temporaries or
    workspaces hold at the peak. Growth compares what is live at the end of two steps; less than
    0.1% of the peak for each step is no growth. The steps are those of the snapshot, counted from
    1. The snapshot is a file of its own, or lies beside the trace (`record --memory`).
    """
    view = query.windows[0].evidence.trace.memory_view
    if view is None:
        raise Unknown("no snapshot of the allocator beside the trace: foretrace record --memory")
    if query.scope.kind != "trace":
        raise Unknown("a snapshot knows the peak and the steps of its own history alone")
    return _held(query, view)
