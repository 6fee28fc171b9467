"""Fills that a library makes beside its own kernel.

What it shows: memsets inside an op that also launched a kernel. A GEMM that keeps a counter or a
workspace clears it first.

Why it matters: no line of the program makes these launches. Each moves a few bytes and costs a
launch, so they count where the run is host-bound. They are why a trace holds more GPU operations
than kernels. The library decides which of its kernels needs one: on an H200 the 256x128 GEMM tiles
do, the 192x128 ones do not.

How it is computed: memsets whose innermost op also launched a kernel. The saving is at most their
time on the GPU.

When it is wrong: an op that fills its result and then writes part of it (`index_put`, `scatter`)
needs the fill. Such fills are large, and the detail says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from foretrace.analyze.rules._common import bare, counted, each, ids, listing, moved_bytes, per
from foretrace.base.units import bytes_text, plural, time_text
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule

# counters and semaphores are a few bytes to a few kilobytes; a buffer for sums is a tensor
LARGE = 65_536


def _check(trace: Trace) -> Iterator[Finding]:
    gpu, host, op = trace.gpu, trace.origins.host, trace.origins.op
    launches = np.zeros(host.count, bool)
    launches[op[gpu.is_kernel & (op >= 0)]] = True
    rows = np.flatnonzero(gpu.is_memset & (op >= 0) & counted(trace))
    rows = rows[launches[op[rows]]]
    if not len(rows):
        return
    ops = Counter(host.names[name] for name in host.name[op[rows]].tolist())
    ns, moved = trace.order.per_step(int(gpu.length[rows].sum())), moved_bytes(trace, rows)
    count, size = each(trace, len(rows)), None if moved is None else trace.order.per_step(moved)
    names = listing([bare(op) for op, _ in ops.most_common(3)])
    title = f"{plural(count, 'memset')} {per(trace)} beside a kernel of the same op"
    small = moved is not None and moved < len(rows) * LARGE
    whose = "its" if len(ops) == 1 else "their"
    purpose = "the library's own bookkeeping" if small else f"buffers that {whose} kernels add into"
    detail = f"{names} cleared {bytes_text(size)} in {time_text(ns)} {per(trace)}: {purpose}."
    makers = {op: each(trace, number) for op, number in sorted(ops.items())}
    evidence = {"count": count, "ns": ns, "bytes": size, "ops": makers}
    yield Finding(RULE.name, "found", title, detail, evidence, ids(gpu.id[rows]), ns)


RULE = Rule(
    "library_fills", "Fills that a library makes beside its own kernel", _check, ("gpu", "ops")
)
