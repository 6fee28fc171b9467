"""Kernels whose launches differ widely in time.

What it shows: kernels of one name, one op shape and one grid whose slowest launch takes at least
1.5 times the median: mean, median, shortest and longest.

Why it matters: a mean over such launches describes none of them. The usual reasons are clocks that
drop, another process or another stream on the card, cold caches, or (for collectives) waiting for
the other ranks.

How it is computed: launches by kernel name, op shapes and grid, at least three of them. Reported
when the launches above their median cost 1% of all kernel time together. Kernels over lists of
tensors (`foreach`, fused optimizers) are left out: their launches have one grid and different
tensors. So are those whose op states no shapes (an all-to-all of a list of tensors). No saving is
claimed, since the trace does not tell the reason.

When it is wrong: three launches are few; record more steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretrace.analyze.rules._common import LISTED, ids, per, shapes_text
from foretrace.base.arrays import coded
from foretrace.base.units import plural, ratio_text, time_text
from foretrace.model.arguments import distinct_lists
from foretrace.model.intervals import Ints
from foretrace.model.order import Case
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule

Floats = NDArray[np.float64]
# On the recorded H200 traces matmuls of one shape stay within 1.05 of their median, strided
# kernels within 1.2.
WIDE = 1.5
FEWEST = 3
WORTH_TELLING = 0.01


def _check(trace: Trace) -> Iterator[Finding]:
    order = trace.order
    alike = np.array([_alike(case) for case in order.cases], bool)
    rows = np.flatnonzero(order.counts & trace.gpu.usable[order.row] & alike[order.case])
    if not len(rows):
        return
    group, length = _groups(trace, rows), order.length[rows]
    middle, longest, size = _spread(group, length)
    above = np.bincount(group, weights=np.maximum(length - middle[group], 0))
    wide = np.flatnonzero((size >= FEWEST) & (longest >= WIDE * middle))
    if above[wide].sum() < WORTH_TELLING * length.sum() or not len(wide):
        return
    worst = wide[np.argsort(-above[wide], kind="stable")][:LISTED]
    members = [np.flatnonzero(group == number) for number in worst.tolist()]
    kinds = [_entry(order.cases[int(order.case[rows[mine[0]]])], length[mine]) for mine in members]
    first, extra = kinds[0], order.per_step(float(above[wide].sum()))
    ratio = ratio_text(first["max_ns"] / max(first["median_ns"], 1))
    title = f"{plural(len(wide), 'kernel')} with widely varying times: use the median, not the mean"
    detail = (
        f"{first['kernel']}: median {time_text(first['median_ns'])}, longest "
        f"{time_text(first['max_ns'])} ({ratio}), mean {time_text(first['mean_ns'])} over "
        f"{first['count']:,} launches. Launches above their median take {time_text(extra)} "
        f"{per(trace)} more than the median."
    )
    slow = np.concatenate([mine[length[mine] >= WIDE * middle[group[mine]]] for mine in members])
    evidence = {"kernels": kinds, "above_median_ns": extra}
    events = ids(np.sort(order.event[rows[slow]]))
    yield Finding(RULE.name, "found", title, detail, evidence, events)


def _alike(case: Case) -> bool:
    """Whether launches of one grid are one problem: not lists of tensors, nor unknown shapes."""
    return case.id.family != "aten_multi_tensor" and bool(shapes_text(case.call))


def _spread(group: Ints, length: Ints) -> tuple[Floats, Ints, Ints]:
    """Median, longest and number of the launches of each group."""
    ordered = length[np.lexsort((length, group))]
    size = np.bincount(group)
    start = np.concatenate(([0], np.cumsum(size)))[:-1]
    middle = (ordered[start + (size - 1) // 2] + ordered[start + size // 2]) / 2
    return middle, ordered[start + size - 1], size


def _groups(trace: Trace, rows: Ints) -> Ints:
    """A number for each kernel name, op shape and grid."""
    _, grid = distinct_lists(trace.kernels["grid"])
    place = np.searchsorted(trace.kernels["id"].to_numpy(), trace.order.event[rows])
    keys = trace.order.case[rows] * (int(grid.max()) + 1) + grid[place]
    numbers: Ints = coded(keys)[1]
    return numbers


def _entry(case: Case, length: Ints) -> dict[str, Any]:
    return {
        "kernel": case.id.short,
        "name": case.name,
        "op": case.op,
        "role": case.role,
        "count": len(length),
        "median_ns": int(np.median(length)),
        "mean_ns": round(float(length.mean())),
        "min_ns": int(length.min()),
        "max_ns": int(length.max()),
    }


RULE = Rule(
    "varying_kernels", "Kernels whose launches differ widely in time", _check, ("gpu", "shapes")
)
