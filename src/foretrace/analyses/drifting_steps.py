"""Steps that take longer and longer.

What it shows: GPU time per step that grows from the first steps to the last, the kernels that grow
most, and whether their shapes, their number or only their times grow.

Why it matters: the mean of such steps describes none of them, and a longer run is slower than the
recording. A cache that grows by `torch.cat` copies itself at every step; a list that is never
cleared grows for ever.

How it is computed: busy time of the GPU work that each step launched, over at least six steps. It
drifts when 90% of all pairs of steps are in rising order and the median of the last third is at
least 10% above that of the first third. The saving is at most the mean time above the median of the
first third.

When it is wrong: steps of different kinds in rising order (a curriculum, batches sorted by length)
look the same. Time that a growing sequence needs cannot be saved.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from foretrace.analyses._common import LISTED, bare, ids, shapes_text
from foretrace.model.intervals import Ints
from foretrace.model.order import op_call
from foretrace.model.spans import Span
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule
from foretrace.units import percent_text, time_text

FEWEST = 6
# Of ten equal steps on an H200 48% of the pairs rise and the thirds differ by 1%; with a growing
# cache all pairs rise.
RISING, GROWTH = 0.9, 0.1


def _check(trace: Trace) -> Iterator[Finding]:
    steps = [span for span in trace.spans.steps if len(span.work)]
    time = np.array([trace.gpu.busy(span.work) for span in steps])
    if len(time) < FEWEST:
        return
    third = len(time) // 3
    first, last = float(np.median(time[:third])), float(np.median(time[-third:]))
    pairs = np.triu(time[None, :] > time[:, None], 1).sum() / (len(time) * (len(time) - 1) / 2)
    if pairs < RISING or last < first * (1 + GROWTH):
        return
    growing = _growing(trace, steps[:third], steps[-third:])
    most = growing[0]
    title = f"Steps drift: GPU time grows from {time_text(first)} to {time_text(last)}"
    detail = (
        f"Medians of the first and last third of {len(time)} steps; {percent_text(float(pairs))} "
        f"of all pairs rise. {bare(most['op'])} grows most: {time_text(most['first_ns'])} to "
        f"{time_text(most['last_ns'])} a step, {_why(most)}."
    )
    evidence = {"step_ns": time.tolist(), "growing": growing}
    saved = round(float(np.maximum(time - first, 0).mean()))
    repair = "allocate once what torch.cat grows" if most["op"] == "aten::cat" else ""
    events = ids(span.event for span in steps)
    yield Finding(RULE.name, "found", title, detail, evidence, events, saved, repair)


def _growing(trace: Trace, early: list[Span], late: list[Span]) -> list[dict[str, Any]]:
    """What each op's GPU operations take in a step early and late, by growth."""
    before, after = _by_op(trace, early), _by_op(trace, late)
    none = np.empty(0, np.int64)
    rows = [(op, before.get(op, none), after.get(op, none)) for op in before | after]
    found = [_entry(trace, op, old, new, len(early)) for op, old, new in rows]
    found.sort(key=lambda entry: (entry["first_ns"] - entry["last_ns"], entry["op"]))
    return found[:LISTED]


def _by_op(trace: Trace, spans: list[Span]) -> dict[str, Ints]:
    gpu, host = trace.gpu, trace.host
    rows = np.concatenate([span.work for span in spans])
    name = np.where(gpu.op[rows] >= 0, host.name[np.maximum(gpu.op[rows], 0)], -1)
    return {
        host.names[number] if number >= 0 else "(no op)": rows[name == number]
        for number in np.unique(name).tolist()
    }


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
    return next((shapes_text(op_call(trace, int(op))) for op in trace.gpu.op[rows] if op >= 0), "")


def _why(entry: dict[str, Any]) -> str:
    if entry["first_count"] < entry["last_count"]:
        return f"launched {entry['first_count']:g} to {entry['last_count']:g} times"
    if entry["first_shapes"] and entry["first_shapes"] != entry["last_shapes"]:
        return f"its shapes {entry['first_shapes']} to {entry['last_shapes']}"
    known = entry["first_shapes"] == entry["last_shapes"] != ""
    return "with the same shapes" if known else "shapes not recorded"


RULE = Rule("drifting_steps", "Steps that take longer and longer", _check, ("gpu", "steps"))
