"""Kernels that keep few warps on each SM.

What it shows: the kernels that take most of the time with less than a quarter of the warps that an
SM could hold, whether registers or shared memory limit them, and how near they come to the roofline
all the same. The profiler reports an occupancy of 0 where it did not measure one; there it is
computed from registers, shared memory and block size.

Why it matters: few warps hide little latency. LOW OCCUPANCY DOES NOT MEAN SLOW: the fastest matrix
matmuls and attention kernels run at 12 to 25% on purpose, because large tiles in registers and
shared memory avoid more memory traffic than more warps could hide. Look at the roofline first;
occupancy explains a kernel that is near neither roof.

How it is computed: kernels with at least 5% of the kernel time, those too small for the GPU and
collectives aside; the profiler's estimate, else the
theoretical occupancy of the footprint (`model/costs/limits.py`). No saving is claimed.

When it is wrong: the profiler's figure is an estimate from the grid, the other one a limit for an
unlimited grid. Traces of AMD cards carry no footprint.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from foretrace.analyze.rules._common import LISTED, ids
from foretrace.base.units import percent_text, plural
from foretrace.model.costs.limits import occupancy
from foretrace.model.order import Case
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule

LOW = 0.25
WORTH_TELLING = 0.05
BOUNDS = {
    "compute": "It is compute-bound all the same",
    "memory": "It is memory-bound all the same",
    "l2": "Its data comes from L2",
}
# Warps explain nothing where the size of the work or the links to other GPUs limit a kernel.
EXPLAINED = ("latency", "comms")
WARPS_SHOWN = 0.32  # half a percent of the 64 warps that an SM holds


def _check(trace: Trace) -> Iterator[Finding]:
    order = trace.order
    whole = max(int(order.length[order.counts].sum()), 1)
    large = [
        case
        for case in order.cases
        if case.ns >= WORTH_TELLING * whole and case.bound not in EXPLAINED
    ]
    places = [int(np.flatnonzero(order.case == case.number)[0]) for case in large]
    pairs = zip(large, places, strict=True)
    seen = [_entry(trace, case, place, case.ns / whole) for case, place in pairs]
    known = [(at, entry["occupancy"]) for at, entry in enumerate(seen)]
    low = [at for at, share in known if share is not None and share < LOW]
    if not low:
        return
    low.sort(key=lambda at: (-large[at].ns, large[at].name))
    first, unmeasured = seen[low[0]], sum(entry["source"] == "footprint" for entry in seen)
    bound = BOUNDS.get(first["bound"], "Its bound is unknown")
    title = f"{plural(len(low), 'kernel')} with low occupancy, which does not mean slow"
    detail = (
        f"{first['kernel']} holds {percent_text(first['occupancy'])} of the warps that an SM could "
        f"({first['registers']} registers per thread, {first['threads']} threads and "
        f"{first['shared_bytes']:,} bytes of shared memory per block). {bound}."
    )
    if unmeasured:
        detail += (
            f" The profiler reported 0 (not measured) for {plural(unmeasured, 'kernel')}: the "
            "occupancy is computed from registers, threads and shared memory."
        )
    evidence = {"kernels": [seen[at] for at in low[:LISTED]], "unmeasured": unmeasured}
    events = ids(int(order.event[places[at]]) for at in low)
    yield Finding(RULE.name, "found", title, detail, evidence, events)


def _entry(trace: Trace, case: Case, place: int, of_time: float) -> dict[str, Any]:
    at = int(np.searchsorted(trace.kernels["id"].to_numpy(), trace.order.event[place]))
    launch = trace.kernels.row(at, named=True)
    share, source = _occupancy(trace, launch)
    return {
        "kernel": case.id.short,
        "occupancy": None if share is None else round(share, 4),
        "source": source,
        "registers": launch["registers"],
        "shared_bytes": launch["shared_memory"] or 0,
        "threads": _threads(launch),
        "time_share": round(of_time, 4),
        "bound": case.bound,
    }


def _occupancy(trace: Trace, launch: dict[str, Any]) -> tuple[float | None, str]:
    """(share of warps, where it comes from) of one launch."""
    written, arch = launch["occupancy"], (trace.about.arch or "").replace("sm", "sm_")
    # rounded to 0 rather than unknown
    small_grid = (launch["warps_per_sm"] or WARPS_SHOWN) < WARPS_SHOWN
    if written or small_grid:
        return (written or 0) / 100, "trace"
    if launch["registers"] is None:
        return None, "none"
    shared = launch["shared_memory"] or 0
    return occupancy(launch["registers"], shared, _threads(launch), arch), "footprint"


def _threads(launch: dict[str, Any]) -> int:
    return math.prod(launch["block"]) if launch["block"] else 0


RULE = Rule("low_occupancy", "Kernels that keep few warps on each SM", _check, ("gpu", "footprint"))
