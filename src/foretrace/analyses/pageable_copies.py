"""Copies between host and device from memory that is not pinned.

What it shows: memcpys from or to pageable host memory: how many, how many bytes, how fast.

Why it matters: the driver copies pageable memory through a pinned buffer of its own. It holds the
calling thread until it has read the source, even where the call says asynchronous.
`pin_memory=True` in the data loader with `non_blocking=True` makes the copy overlap with kernels.

How it is computed: from the names of the memcpys (`Memcpy HtoD (Pageable -> Device)`). The saving
is at most the larger of their time on the GPU and the time that the host spent in the calls, and at
most that GPU time and the idle time of a step. Copies up to 64 KiB are left out: they do not block
the host, and pinning costs more than they do.

When it is wrong: traces of AMD cards do not tell pageable from pinned memory, so nothing is said
about them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyses._common import counted, each, ids, per
from foretrace.analyses._idle import most_idle
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule
from foretrace.units import bytes_text, plural, time_text

# Up to 64 KiB the driver takes a copy of pageable memory and returns before the transfer is done.
STAGED = 65_536


def _check(trace: Trace) -> Iterator[Finding]:
    gpu, host, step = trace.gpu, trace.host, trace.order.per_step
    pageable = host.named(lambda name: name.startswith("Memcpy") and "Pageable" in name)[gpu.id]
    rows = np.flatnonzero(gpu.is_memcpy & pageable & (gpu.bytes > STAGED) & counted(trace))
    if not len(rows):
        return
    moved, ns = int(gpu.bytes[rows].sum()), int(gpu.length[rows].sum())
    calls = np.unique(gpu.launch[rows][gpu.launch[rows] >= 0])
    held, count = int(host.length[calls].sum()), each(trace, len(rows))
    rate = round(moved / ns, 2) if ns else None
    speed = f" at {rate:.1f} GB/s" if rate is not None else ""
    title = f"{plural(count, 'copy', 'copies')} {per(trace)} through pageable host memory"
    detail = (
        f"{bytes_text(step(moved))}{speed}: {time_text(step(ns))} on the GPU, "
        f"{time_text(step(held))} in the host calls {per(trace)}. Pinned memory copies faster and "
        "does not block the host."
    )
    evidence = {
        "count": count,
        "bytes": step(moved),
        "ns": step(ns),
        "host_ns": step(held),
        "gb_per_s": rate,
    }
    saved = min(step(max(ns, held)), step(ns) + most_idle(trace))
    repair = "pin the host memory (pin_memory=True, non_blocking=True)"
    yield Finding(RULE.name, "found", title, detail, evidence, ids(gpu.id[rows]), saved, repair)


RULE = Rule("pageable_copies", "Copies from memory that is not pinned", _check, ("gpu",))
