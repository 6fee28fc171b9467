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
theoretical occupancy of the footprint (`work/costs/limits.py`). No saving is claimed.

When it is wrong: the profiler's figure is an estimate from the grid, the other one a limit for an
unlimited grid. Traces of AMD cards carry no footprint.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from foretrace.base.units import percent_text, plural
from foretrace.look.rules._seen import LISTED, Found, Seen, rule
from foretrace.trace.kernels import Case
from foretrace.work.costs.limits import occupancy

BOUNDS = {
    "compute": "It is compute-bound all the same",
    "memory": "It is memory-bound all the same",
    "l2": "Its data comes from L2",
}
# Warps explain nothing where the size of the work or the links to other GPUs limit a kernel.
EXPLAINED = ("latency", "comms")
WARPS_SHOWN = 0.32  # half a percent of the 64 warps that an SM holds


@rule("Kernels that keep few warps on each SM", "gpu footprint", example="mlp_eager")
def _check(seen: Seen) -> Found:
    order = seen.order
    whole = max(int(order.length[order.counts].sum()), 1)
    large = [case for case in order.cases if case.ns >= 0.05 * whole]
    large = [case for case in large if case.bound not in EXPLAINED]
    places = [int(np.flatnonzero(order.case == case.number)[0]) for case in large]
    pairs = zip(large, places, strict=True)
    known = [_entry(seen, case, place, case.ns / whole) for case, place in pairs]
    shares = [entry["occupancy"] for entry in known]
    low = [at for at, share in enumerate(shares) if share is not None and share < 0.25]
    if not low:
        return
    low.sort(key=lambda at: (-large[at].ns, large[at].name))
    first, unmeasured = known[low[0]], sum(entry["source"] == "footprint" for entry in known)
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
    evidence = {"kernels": [known[at] for at in low[:LISTED]], "unmeasured": unmeasured}
    yield seen.found(title, detail, evidence, (order.event[places[at]] for at in low))


def _entry(seen: Seen, case: Case, place: int, of_time: float) -> dict[str, Any]:
    kernels = seen.trace.kernels
    at = int(np.searchsorted(kernels["id"].to_numpy(), seen.order.event[place]))
    launch = kernels.row(at, named=True)
    threads = math.prod(launch["block"]) if launch["block"] else 0
    share, source = _occupancy(seen, launch, threads)
    return {
        "kernel": case.id.short,
        "occupancy": None if share is None else round(share, 4),
        "source": source,
        "registers": launch["registers"],
        "shared_bytes": launch["shared_memory"] or 0,
        "threads": threads,
        "time_share": round(of_time, 4),
        "bound": case.bound,
    }


def _occupancy(seen: Seen, launch: dict[str, Any], threads: int) -> tuple[float | None, str]:
    """(share of warps, where it comes from) of one launch."""
    written, arch = launch["occupancy"], (seen.trace.about.arch or "").replace("sm", "sm_")
    # rounded to 0 rather than unknown
    small_grid = (launch["warps_per_sm"] or WARPS_SHOWN) < WARPS_SHOWN
    if written or small_grid:
        return (written or 0) / 100, "trace"
    if launch["registers"] is None:
        return None, "none"
    shared = launch["shared_memory"] or 0
    return occupancy(launch["registers"], shared, threads, arch), "footprint"
