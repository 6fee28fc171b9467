"""Copies between host and device from memory that is not pinned.

What it shows: memcpys from or to pageable host memory: how many, how many bytes, how fast.

Why it matters: the driver copies pageable memory through a pinned buffer of its own. It holds the
calling thread until it has read the source, even where the call says asynchronous.
`pin_memory=True` in the data loader with `non_blocking=True` makes the copy overlap with kernels.

How it is computed: from the names of the memcpys (`Memcpy HtoD (Pageable -> Device)`); bytes and
times are those of a step, the median over steps. What pinning saves is predicted by the fix
`pinned_copies`. Copies up to 64 KiB are left out: they do not block the host, and pinning costs
more than they do.

When it is wrong: traces of AMD cards do not tell pageable from pinned memory, so nothing is said
about them.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.units import bytes_text, plural, time_text
from foretrace.look.rules._seen import Found, Seen, rule
from foretrace.trace.intervals import Ints

# Up to 64 KiB the driver takes a copy of pageable memory and returns before the transfer is done.
STAGED = 65_536


@rule("Copies from memory that is not pinned", "gpu", fixes="pinned_copies keep_on_gpu")
def _check(seen: Seen) -> Found:
    gpu, host = seen.gpu, seen.host
    pageable = host.named(lambda name: name.startswith("Memcpy") and "Pageable" in name)[gpu.id]
    rows = np.flatnonzero(gpu.is_memcpy & pageable & (gpu.bytes > STAGED) & seen.counted)
    if not len(rows):
        return
    launch, first = np.unique(gpu.launch[rows], return_index=True)
    calls = rows[first[launch >= 0]]  # a row for each call
    moved, ns = (_typical(seen, rows, values[rows]) for values in (gpu.bytes, gpu.length))
    held, count = _typical(seen, calls, host.length[gpu.launch[calls]]), seen.each(len(rows))
    rate = round(moved / ns, 2) if ns else None
    speed = f" at {rate:.1f} GB/s" if rate is not None else ""
    title = f"{plural(count, 'copy', 'copies')} {seen.per} through pageable host memory"
    detail = (
        f"{bytes_text(moved)}{speed}: {time_text(ns)} on the GPU, "
        f"{time_text(held)} in the host calls {seen.per}. Pinned memory copies faster and "
        "does not block the host."
    )
    evidence = {"count": count, "bytes": moved, "ns": ns, "host_ns": held, "gb_per_s": rate}
    yield seen.found(title, detail, evidence, gpu.id[rows])


def _typical(seen: Seen, rows: Ints, values: Ints) -> int:
    """The sum in a step, the median over steps: copies vary more than kernels do."""
    if not seen.order.steps:
        return int(values.sum())
    spans = seen.trace.spans
    sums = np.bincount(spans.step_of_work()[rows], weights=values, minlength=len(spans.steps))
    return round(float(np.median(sums[[span.index for span in spans.steps if len(span.work)]])))
