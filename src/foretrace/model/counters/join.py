"""Which launch of an export is which kernel of a trace.

Both list launches in their order. The kernels of the counted step, or of a step that fits, are
compared with the launches by function, grid, block and template arguments. A launch that could be
one of several kernels is joined to none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.units import count_text, plural
from foretrace.model.analysis import Analysis
from foretrace.model.counters.launches import (
    LaunchShape,
    certain_pairs,
    function,
    numbered_launches,
    occurrences,
)
from foretrace.read.ncu import CounterLaunch

# Below this share of joined launches a kernel that one run lacks and one that the other repeats may
# pass for one: with 10% missing and 5% repeated, 0.5% of the joined were wrong; with 2%, none.
MOSTLY = 0.95
MOST_STEPS = 20  # that are compared with an export of an unknown step
LAST = -1


class Wanted(NamedTuple):
    """What was counted, where that is known: a step of the trace, kernels by name, the first few.

    `step` is LAST, the last step of the trace; None where any of them may fit.
    """

    step: int | None = None
    kernel: str | None = None
    limit: int | None = None


class CounterJoin(Struct, frozen=True):
    """Pairs of (launch of the export, kernel of the trace), and how they were found.

    `compared` is how many kernels of the trace were compared, `place` what they are.
    """

    pairs: list[tuple[int, int]]
    compared: int
    place: str
    note: str = ""


class _Window(NamedTuple):
    """Kernels of the trace that an export may show: their ids in launch order."""

    place: str
    ids: list[int]
    shapes: list[LaunchShape]
    steps: list[int | None]


def joined(trace: Analysis, launches: Sequence[CounterLaunch], wanted: Wanted) -> CounterJoin:
    """Join the launches of one process to kernels of a trace."""
    theirs = [LaunchShape(one.name, one.grid, one.block) for one in launches]
    last = _window(trace, _last_step(trace), wanted)
    places = [] if wanted.step is not None else _other_steps(trace, len(theirs), wanted)
    for step in [None, *places]:
        window = last if step is None else _window(trace, step, wanted)
        ours, counted = numbered_launches(window.shapes, theirs)
        if ours and ours == counted:
            return _found(window, [(at, at) for at in range(len(ours))])
    whole = _window(trace, None, wanted)
    if wanted.step is None and (inside := _inside(trace, whole, theirs)):
        return inside
    ours, counted = numbered_launches(last.shapes, theirs)
    pairs = certain_pairs(ours, counted)
    if pairs is None:
        text = "both lists differ and are too long to be compared: count fewer launches"
        return CounterJoin([], len(last.ids), last.place, text)
    return _found(last, pairs, _differences(last, pairs, launches))


def launches_of(
    trace: Analysis, launches: Sequence[CounterLaunch]
) -> tuple[list[CounterLaunch], list[str]]:
    """The launches of one process and device: those with most functions of the trace."""
    parts: dict[tuple[str, str], list[CounterLaunch]] = {}
    for launch in launches:
        parts.setdefault((launch.process, launch.device), []).append(launch)
    known = {function(name) for name in trace.kernels["name"].unique()}
    ordered = sorted(
        parts.values(), key=lambda part: -sum(function(one.name) in known for one in part)
    )
    others = sum(map(len, ordered[1:]))
    text = f"{plural(others, 'launch', 'launches')} of other processes or GPUs not used"
    return ordered[0], [text] if others else []


def _last_step(trace: Analysis) -> int | None:
    """The step that is counted unless the export fits another; None where there are no steps."""
    return int(trace.steps["index"][-1]) if trace.steps.height else None


def _other_steps(trace: Analysis, count: int, wanted: Wanted) -> list[int]:
    """Earlier steps that an export may show, the last one first: those with as many kernels."""
    sizes = dict(trace.kernels.group_by("step").len().iter_rows())
    chosen = wanted.kernel is not None or wanted.limit is not None
    steps = [step for step in trace.steps["index"] if chosen or sizes.get(step) == count]
    return steps[::-1][:MOST_STEPS]


def _window(trace: Analysis, step: int | None, wanted: Wanted) -> _Window:
    frame = trace.kernels if step is None else trace.kernels.filter(pl.col("step") == step)
    # within a launch of a graph, kernels have the order in which they ran
    frame = frame.sort("launch", "ts_ns", nulls_last=True, maintain_order=True)
    if wanted.kernel is not None:
        meant = re.compile(wanted.kernel)
        frame = frame.filter([bool(meant.search(function(name))) for name in frame["name"]])
    if wanted.limit is not None:
        frame = frame.head(wanted.limit)
    shapes = [
        LaunchShape(name, tuple(grid or ()), tuple(block or ()))
        for name, grid, block in frame.select("name", "grid", "block").iter_rows()
    ]
    place = "the trace" if step is None else _step_name(trace, step)
    return _Window(place, frame["id"].to_list(), shapes, frame["step"].to_list())


def _step_name(trace: Analysis, step: int) -> str:
    return str(trace.steps.filter(pl.col("index") == step)["name"][0])


def _inside(trace: Analysis, whole: _Window, theirs: list[LaunchShape]) -> CounterJoin | None:
    """An export that is a part of the trace without a gap: at one place, or at one of each step."""
    ours, counted = numbered_launches(whole.shapes, theirs)
    starts = occurrences(counted, ours)
    if not starts:
        return None
    if len(starts) > 1 and not _once_a_step(whole, starts):
        text = f"the launches fit {len(starts)} places of the trace, so they are joined to none"
        return CounterJoin([], len(whole.ids), whole.place, text)
    pairs = [(starts[-1] + at, at) for at in range(len(counted))]
    found = _found(whole, pairs)
    step = whole.steps[starts[-1]]
    if len(starts) == 1 or step is None:
        return found
    return replace(found, place=_step_name(trace, step), compared=whole.steps.count(step))


def _once_a_step(whole: _Window, starts: list[int]) -> bool:
    """Whether each place is as far behind the begin of its step as the others."""
    first: dict[int | None, int] = {}
    for at, step in enumerate(whole.steps):
        first.setdefault(step, at)
    within = [whole.steps[start] for start in starts]
    apart = {start - first[step] for start, step in zip(starts, within, strict=True)}
    return None not in within and len(set(within)) == len(starts) and len(apart) == 1


def _found(window: _Window, pairs: list[tuple[int, int]], note: str = "") -> CounterJoin:
    return CounterJoin(
        [(theirs, window.ids[ours]) for ours, theirs in pairs],
        len(window.ids),
        window.place,
        note,
    )


def _differences(
    window: _Window, pairs: list[tuple[int, int]], launches: Sequence[CounterLaunch]
) -> str:
    """What the two runs do not share, in words."""
    known = {function(shape.name) for shape in window.shapes}
    joined_ones = {theirs for _, theirs in pairs}
    rest = [function(one.name) for at, one in enumerate(launches) if at not in joined_ones]
    alone = Counter(name for name in rest if name not in known)
    unsure, missing = len(rest) - alone.total(), len(window.ids) - len(pairs)
    parts = []
    if alone:
        names = ", ".join(f"{name} ({count_text(count)})" for name, count in alone.most_common(3))
        parts.append(f"{plural(alone.total(), 'launch', 'launches')} not in the trace: {names}")
    if unsure:
        parts.append(
            f"{plural(unsure, 'launch', 'launches')} could be several kernels of it, or none"
        )
    if missing:
        parts.append(f"{plural(missing, 'kernel')} of the trace not joined")
    if pairs and len(pairs) < MOSTLY * max(len(launches), len(window.ids)):
        parts.append("the runs differ much, so a launch may be another one of the same kernel")
    return "; ".join(parts)
