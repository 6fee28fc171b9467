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

import numpy as np

from foretrace.base.arrays import coded
from foretrace.base.units import plural, ratio_text, time_text
from foretrace.look.rules._seen import LISTED, Facts, Found, Seen, rule, shapes_text
from foretrace.trace.arguments import distinct_lists
from foretrace.trace.intervals import Ints

# On the recorded H200 traces matmuls of one shape stay within 1.05 of their median, strided
# kernels within 1.2.
WIDE = 1.5


@rule("Kernels whose launches differ widely in time", "gpu shapes")
def _check(seen: Seen) -> Found:
    order = seen.order
    # launches of one grid are one problem, but for lists of tensors and unknown shapes
    alike = [
        case.id.family != "aten_multi_tensor" and bool(shapes_text(case.call))
        for case in seen.cases
    ]
    known = order.counts & seen.gpu.usable[order.row] & np.array(alike, bool)[order.case]
    rows = np.flatnonzero(known)
    if not len(rows):
        return
    group, length = _groups(seen, rows), order.length[rows]
    ordered, size = length[np.lexsort((length, group))], np.bincount(group)
    start = np.concatenate(([0], np.cumsum(size)))[:-1]
    middle = (ordered[start + (size - 1) // 2] + ordered[start + size // 2]) / 2
    above = np.bincount(group, weights=np.maximum(length - middle[group], 0))
    longest = ordered[start + size - 1]
    wide = np.flatnonzero((size >= 3) & (longest >= WIDE * middle))
    if above[wide].sum() < 0.01 * length.sum() or not len(wide):
        return
    worst = wide[np.argsort(-above[wide], kind="stable")][:LISTED]
    members = [np.flatnonzero(group == number) for number in worst.tolist()]
    kinds: list[Facts] = []
    for mine in members:
        case, times = seen.cases[int(order.case[rows[mine[0]]])], length[mine]
        told: Facts = {"kernel": case.id.short, "name": case.name, "op": case.op, "role": case.role}
        mean, median = round(float(times.mean())), int(np.median(times))
        spent = {"count": len(times), "median_ns": median, "mean_ns": mean}
        kinds.append(told | spent | {"min_ns": int(times.min()), "max_ns": int(times.max())})
    first, extra = kinds[0], seen.step(float(above[wide].sum()))
    ratio = ratio_text(first["max_ns"] / max(first["median_ns"], 1))
    title = f"{plural(len(wide), 'kernel')} with widely varying times: use the median, not the mean"
    detail = (
        f"{first['kernel']}: median {time_text(first['median_ns'])}, longest "
        f"{time_text(first['max_ns'])} ({ratio}), mean {time_text(first['mean_ns'])} over "
        f"{first['count']:,} launches. Launches above their median take {time_text(extra)} "
        f"{seen.per} more than the median."
    )
    slow = np.concatenate([mine[length[mine] >= WIDE * middle[group[mine]]] for mine in members])
    evidence = {"kernels": kinds, "above_median_ns": extra}
    yield seen.found(title, detail, evidence, np.sort(order.event[rows[slow]]))


def _groups(seen: Seen, rows: Ints) -> Ints:
    """A number for each kernel name, op shape and grid."""
    kernels, order = seen.trace.kernels, seen.order
    _, grid = distinct_lists(kernels["grid"])
    place = np.searchsorted(kernels["id"].to_numpy(), order.event[rows])
    numbers: Ints = coded(order.case[rows] * (int(grid.max()) + 1) + grid[place])[1]
    return numbers
