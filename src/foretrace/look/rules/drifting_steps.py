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

from typing import Any

import numpy as np

from foretrace.base.arrays import distinct
from foretrace.base.units import percent_text, time_text
from foretrace.look.rules._seen import LISTED, Found, Seen, bare, rule, shapes_text
from foretrace.trace.intervals import Ints, split_by
from foretrace.trace.spans import Span

# Of ten equal steps on an H200 53% of the pairs rise and the thirds differ by 0.2%; with a growing
# cache all pairs rise and the last third is 62% above the first.
RISING, GROWTH = 0.9, 0.1


@rule("Steps that take longer and longer", "gpu steps", fixes="cache_by_cat")
def _check(seen: Seen) -> Found:
    steps = [span for span in seen.trace.spans.steps if len(span.work)]
    if len(steps) < 6:
        return
    busy, host = [seen.trace.spans.busy(span) for span in steps], [span.cpu_ns for span in steps]
    on_gpu = _drift(busy)
    drift = on_gpu or _drift(host)
    if drift is None:
        return
    if on_gpu:
        third = len(steps) // 3
        growing = _growing(seen, steps[:third], steps[-third:])
        most = growing[0]
        what, times = "GPU time", busy
        told = (
            f"{bare(most['op'])} grows most: "
            f"{time_text(most['first_ns'])} to {time_text(most['last_ns'])} a step, {_why(most)}."
        )
    else:
        what, times, growing = "host time (includes profiler overhead)", host, []
        told = "GPU time per step does not grow: the host's does."
    first_ns, last_ns, rising, above_ns = drift
    title = f"Steps drift: {what} grows from {time_text(first_ns)} to {time_text(last_ns)}"
    pairs = f"{percent_text(rising)} of all pairs rise"
    detail = f"Medians of the first and last third of {len(steps)} steps; {pairs}. {told}"
    evidence = {"step_ns": times, "growing": growing}
    yield seen.found(title, detail, evidence, (span.event for span in steps), above_ns)


def _drift(times: list[int]) -> tuple[float, float, float, int] | None:
    """The medians of the first and the last third, the share of rising pairs, and the mean time
    above the first median; None where a time does not grow from step to step.
    """
    time, third = np.array(times), len(times) // 3
    first, last = float(np.median(time[:third])), float(np.median(time[-third:]))
    pairs = _rising(time) / (len(time) * (len(time) - 1) / 2)
    if pairs < RISING or last < first * (1 + GROWTH):
        return None
    return first, last, pairs, round(float(np.maximum(time - first, 0).mean()))


def _rising(time: Ints) -> int:
    """How many pairs rise; by halves, as all pairs of many steps do not fit the memory."""
    if len(time) <= 64:  # of these the pairs are compared one by one
        return int(np.triu(time[None, :] > time[:, None], 1).sum())
    left, right = np.array_split(time, 2)
    return int(np.searchsorted(np.sort(left), right).sum()) + _rising(left) + _rising(right)


def _growing(seen: Seen, early: list[Span], late: list[Span]) -> list[dict[str, Any]]:
    """What each op's GPU operations take in a step early and late, by growth."""
    gpu, origins, steps = seen.gpu, seen.trace.origins, len(early)

    def by_op(spans: list[Span]) -> dict[str, Ints]:
        rows = np.concatenate([span.work for span in spans])
        op = origins.op[rows]
        name = np.where(op >= 0, origins.host.name[np.maximum(op, 0)], -1)
        numbers = distinct(name).tolist()
        names = [origins.host.names[number] if number >= 0 else "(no op)" for number in numbers]
        return dict(zip(names, split_by(name, rows), strict=True))

    def shapes(rows: Ints) -> str:
        ops = origins.op[rows]
        return next((shapes_text(seen.call(int(op))) for op in ops if op >= 0), "")

    before, after, none = by_op(early), by_op(late), np.empty(0, np.int64)
    found: list[dict[str, Any]] = []
    for op in before | after:
        sides = {"first": before.get(op, none), "last": after.get(op, none)}
        ns = {f"{at}_ns": round(int(gpu.length[rows].sum()) / steps) for at, rows in sides.items()}
        count = {f"{at}_count": round(len(rows) / steps, 1) for at, rows in sides.items()}
        first, last = shapes(sides["first"][:1]), shapes(sides["last"][-1:])
        known = {"first_shapes": first, "last_shapes": last}
        found.append({"op": op, **ns, **count, **known})
    found.sort(key=lambda entry: (entry["first_ns"] - entry["last_ns"], entry["op"]))
    return found[:LISTED]


def _why(entry: dict[str, Any]) -> str:
    if entry["first_count"] < entry["last_count"]:
        return f"launched {entry['first_count']:g} to {entry['last_count']:g} times"
    if entry["first_shapes"] and entry["first_shapes"] != entry["last_shapes"]:
        return f"its shapes {entry['first_shapes']} to {entry['last_shapes']}"
    known = entry["first_shapes"] == entry["last_shapes"] != ""
    return "with the same shapes" if known else "shapes not recorded"
