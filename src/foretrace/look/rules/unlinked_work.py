"""GPU operations without a launch in the trace.

What it shows: kernels, memcpys and memsets whose launching call was not recorded: how many, how
long, which.

Why it matters: they belong to no op and no step, so every figure per step or per region leaves them
out. Most were queued before the recording began: the profiler started while the GPU was still busy.

How it is computed: GPU events whose correlation id no runtime or driver call carries. A stream runs
in order, so what ran before its first recorded launch was launched before the recording.

When it is wrong: the count is certain. The trace holds their names, but not what they were for.
Wait for the GPU before the profiler starts (`torch.cuda.synchronize()`), or give the schedule a
`warmup` step.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from foretrace.base.units import percent_text, plural, time_text
from foretrace.look.rules._seen import Found, Seen, listing, rule
from foretrace.work import families


@rule(
    "GPU operations without a launch in the trace", "gpu", example="llama_decode_cuda_graph_2layers"
)
def _check(seen: Seen) -> Found:
    gpu, host = seen.gpu, seen.host
    rows = np.flatnonzero(gpu.launch < 0)
    if not len(rows):
        return
    ns = int(gpu.length[rows].sum())
    share = round(ns / max(int(gpu.length.sum()), 1), 4)
    early = int(gpu.before_recording.sum()) if host.is_launch.any() else None
    names = [host.names[name] for name in host.name[gpu.id[rows]].tolist()]
    shorts = Counter(families.decode(name).short for name in names)
    before = f" ({early:,} launched before the recording)" if early else ""
    often = listing([name for name, _ in shorts.most_common(3)])
    title = f"{plural(len(rows), 'GPU operation')} without a launch in the trace"
    spent = f"{time_text(ns)}, {percent_text(share)} of GPU time"
    detail = f"{spent}, outside every step and op{before}. Most often: {often}."
    evidence = {"count": len(rows), "ns": ns, "share": share, "before_first_launch": early}
    yield seen.found(title, detail, evidence, gpu.id[rows])
