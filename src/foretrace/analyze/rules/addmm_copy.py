"""The matrix that addmm copies before it multiplies.

What it shows: `addmm` (or `baddbmm`) calls that first copy their two-dimensional bias into the
result and then add the matmul to it. The copy is a memcpy or a copy kernel.

Why it matters: the copy reads and writes the whole matrix. A bias vector needs no copy: the matmul
adds it in its epilogue. `torch.compile` turns `x @ w + b` into such an `addmm`, so compiling can
add a copy that eager code does not have.

How it is computed: copies whose innermost op is an `addmm` or `baddbmm`. The saving is at most
their time.

When it is wrong: the copy is certain. Measure whether avoiding it pays: the separate addition that
eager code makes instead moves three times as much.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.rules._common import by_op_path, each, ids, moved_bytes, per, plain_copies
from foretrace.base.units import bytes_text, time_text, times_text
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule

ADDING = frozenset({"aten::addmm", "aten::addmm_", "aten::baddbmm", "aten::baddbmm_"})


def _check(trace: Trace) -> Iterator[Finding]:
    chosen = [
        mine for mine, path in by_op_path(trace, plain_copies(trace)) if path and path[-1] in ADDING
    ]
    if not chosen:
        return
    mine = np.sort(np.concatenate(chosen))
    ns, moved = trace.order.per_step(int(trace.gpu.length[mine].sum())), moved_bytes(trace, mine)
    count, size = each(trace, len(mine)), None if moved is None else trace.order.per_step(moved)
    title = f"addmm copies its two-dimensional bias first, {times_text(count)} {per(trace)}"
    detail = (
        f"The copies read and write {bytes_text(size)} in {time_text(ns)} {per(trace)}. A matmul "
        "adds a bias vector in its epilogue, without a copy."
    )
    evidence = {"count": count, "ns": ns, "bytes": size}
    yield Finding(RULE.name, "found", title, detail, evidence, ids(trace.gpu.id[mine]), ns)


RULE = Rule(
    "addmm_copy", "The matrix that addmm copies before it multiplies", _check, ("gpu", "ops")
)
