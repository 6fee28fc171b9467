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

import numpy as np

from foretrace.base.units import bytes_text, plural, time_text
from foretrace.look.rules._seen import Found, Seen, bare, listing, rule
from foretrace.look.rules.addmm_copy import moved_bytes

# counters and semaphores are a few bytes to a few kilobytes; a buffer for sums is a tensor
LARGE = 65_536


@rule("Fills that a library makes beside its own kernel", "gpu ops", example="llama_train_eager")
def _check(seen: Seen) -> Found:
    gpu, host, op = seen.gpu, seen.trace.origins.host, seen.trace.origins.op
    launches = np.zeros(host.count, bool)
    launches[op[gpu.is_kernel & (op >= 0)]] = True
    rows = np.flatnonzero(gpu.is_memset & (op >= 0) & seen.counted)
    rows = rows[launches[op[rows]]]
    if not len(rows):
        return
    ops = Counter(host.names[name] for name in host.name[op[rows]].tolist())
    count, ns, size = seen.each(len(rows)), seen.ns(rows), moved_bytes(seen, rows)
    names = listing([bare(op) for op, _ in ops.most_common(3)])
    title = f"{plural(count, 'memset')} {seen.per} beside a kernel of the same op"
    small = size is not None and size < seen.step(len(rows) * LARGE)
    buffers = f"buffers that {'its' if len(ops) == 1 else 'their'} kernels add into"
    purpose = "the library's own bookkeeping" if small else buffers
    detail = f"{names} cleared {bytes_text(size)} in {time_text(ns)} {seen.per}: {purpose}."
    makers = {op: seen.each(number) for op, number in sorted(ops.items())}
    evidence = {"count": count, "ns": ns, "bytes": size, "ops": makers}
    yield seen.found(title, detail, evidence, gpu.id[rows], ns)
