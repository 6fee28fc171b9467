"""Steps that take longer and longer.

What it shows: GPU time per step, or the time of the steps themselves, that grows from the first
steps to the last. For GPU time it names the op that grows most, and whether its shapes, its number
or only its time grows.

Why it matters: the mean of such steps describes none of them, and a longer run is slower than the
recording. A cache that grows by `torch.cat` copies itself at every step; a list that is never
cleared grows for ever.

How it is computed: over at least six steps, the busy time of the GPU work that each launched; if
that does not drift, the host time of the step. A time drifts when 90% of all pairs of steps are in
rising order and the median of the last third is at least 10% above that of the first third. The
saving is at most the mean time above the median of the first third.

When it is wrong: steps of different kinds in rising order (a curriculum, batches sorted by length)
look the same. Time that a growing sequence needs cannot be saved.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct

from foretrace.analyze.rules._common import LISTED, bare, ids, shapes_text
from foretrace.base.arrays import distinct
from foretrace.base.units import percent_text, time_text
from foretrace.model.intervals import Ints, split_by
from foretrace.model.recording import op_call
from foretrace.model.spans import Span
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule

FEWEST = 6
# Of ten equal steps on an H200 53% of the pairs rise and the thirds differ by 0.2%; with a growing
# cache all pairs rise and the last third is 62% above the first.
RISING, GROWTH = 0.9, 0.1
FEW = 64  # of these the pairs are compared one by one


class Drift(Struct, frozen=True):
    """Medians of the first and last third, the share of rising pairs, the mean time above."""

    first_ns: float
    last_ns: float
    rising: float
    above_ns: int


def _check(trace: Trace) -> Iterator[Finding]:
    steps = [span for span in trace.spans.steps if len(span.work)]
    if len(steps) < FEWEST:
        return
    busy = [trace.spans.busy(span) for span in steps]
    host = [span.cpu_ns for span in steps]
    events = ids(span.event for span in steps)
    if drift := _drift(busy):
        third = len(steps) // 3
        growing = _growing(trace, steps[:third], steps[-third:])
        most = growing[0]
        detail = (
            f"{_thirds(drift, len(steps))} {bare(most['op'])} grows most: "
            f"{time_text(most['first_ns'])} to {time_text(most['last_ns'])} a step, {_why(most)}."
        )
        evidence = {"step_ns": busy, "growing": growing}
        title = _title("GPU time", drift)
        yield Finding(RULE.name, "found", title, detail, evidence, events, drift.above_ns)
    elif drift := _drift(host):
        detail = f"{_thirds(drift, len(steps))} GPU time per step does not grow: the host's does."
        title = _title("host time (includes profiler overhead)", drift)
        evidence = {"step_ns": host, "growing": []}
        yield Finding(RULE.name, "found", title, detail, evidence, events, drift.above_ns)


def _drift(times: list[int]) -> Drift | None:
    """How a time grows from step to step; None where it does not."""
    time, third = np.array(times), len(times) // 3
    first, last = float(np.median(time[:third])), float(np.median(time[-third:]))
    pairs = _rising(time) / (len(time) * (len(time) - 1) / 2)
    if pairs < RISING or last < first * (1 + GROWTH):
        return None
    return Drift(first, last, pairs, round(float(np.maximum(time - first, 0).mean())))


def _rising(time: Ints) -> int:
    """How many pairs rise; by halves, as all pairs of many steps do not fit the memory."""
    if len(time) <= FEW:
        return int(np.triu(time[None, :] > time[:, None], 1).sum())
    left, right = np.array_split(time, 2)
    return int(np.searchsorted(np.sort(left), right).sum()) + _rising(left) + _rising(right)


def _title(what: str, drift: Drift) -> str:
    return (
        f"Steps drift: {what} grows from {time_text(drift.first_ns)} to {time_text(drift.last_ns)}"
    )


def _thirds(drift: Drift, steps: int) -> str:
    pairs = percent_text(drift.rising)
    return f"Medians of the first and last third of {steps} steps; {pairs} of all pairs rise."


def _growing(trace: Trace, early: list[Span], late: list[Span]) -> list[dict[str, Any]]:
    """What each op's GPU operations take in a step early and late, by growth."""
    before, after = _by_op(trace, early), _by_op(trace, late)
    none = np.empty(0, np.int64)
    rows = [(op, before.get(op, none), after.get(op, none)) for op in before | after]
    found = [_entry(trace, op, old, new, len(early)) for op, old, new in rows]
    found.sort(key=lambda entry: (entry["first_ns"] - entry["last_ns"], entry["op"]))
    return found[:LISTED]


def _by_op(trace: Trace, spans: list[Span]) -> dict[str, Ints]:
    host = trace.origins.host
    rows = np.concatenate([span.work for span in spans])
    op = trace.origins.op[rows]
    name = np.where(op >= 0, host.name[np.maximum(op, 0)], -1)
    numbers = distinct(name).tolist()
    names = [host.names[number] if number >= 0 else "(no op)" for number in numbers]
    return dict(zip(names, split_by(name, rows), strict=True))


def _entry(trace: Trace, op: str, old: Ints, new: Ints, steps: int) -> dict[str, Any]:
    gpu = trace.gpu
    return {
        "op": op,
        "first_ns": round(int(gpu.length[old].sum()) / steps),
        "last_ns": round(int(gpu.length[new].sum()) / steps),
        "first_count": round(len(old) / steps, 1),
        "last_count": round(len(new) / steps, 1),
        "first_shapes": _shapes(trace, old[:1]),
        "last_shapes": _shapes(trace, new[-1:]),
    }


def _shapes(trace: Trace, rows: Ints) -> str:
    ops = trace.origins.op[rows]
    return next((shapes_text(op_call(trace, int(op))) for op in ops if op >= 0), "")


def _why(entry: dict[str, Any]) -> str:
    if entry["first_count"] < entry["last_count"]:
        return f"launched {entry['first_count']:g} to {entry['last_count']:g} times"
    if entry["first_shapes"] and entry["first_shapes"] != entry["last_shapes"]:
        return f"its shapes {entry['first_shapes']} to {entry['last_shapes']}"
    known = entry["first_shapes"] == entry["last_shapes"] != ""
    return "with the same shapes" if known else "shapes not recorded"


RULE = Rule(
    "drifting_steps",
    "Steps that take longer and longer",
    _check,
    ("gpu", "steps"),
    fixes=("cache_by_cat",),
)
