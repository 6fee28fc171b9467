"""The matrix that addmm copies before it multiplies.

What it shows: `addmm` (or `baddbmm`) calls that first copy their two-dimensional bias into the
result, with a memcpy or a copy kernel, and then add the product to it.

Why it matters: the copy moves the whole matrix, once in and once out. A bias vector needs none: it
is added in the product's epilogue. `torch.compile` turns `x @ w + b` into such an `addmm`, so
compiling can add a copy that eager code does not have.

How it is computed: copies whose innermost op is an `addmm` or `baddbmm`. The saving is at most
their time.

When it is wrong: not as to the copy. Whether it pays to avoid it must be measured: the separate
addition that eager code makes instead moves three times as much.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from foretrace.analyses._common import each, ids, per
from foretrace.analyses._copies import moved_bytes, paths, plain_copies
from foretrace.schema.finding import Finding, Rule
from foretrace.units import bytes_text, plural, time_text

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

ADDING = frozenset({"aten::addmm", "aten::addmm_", "aten::baddbmm", "aten::baddbmm_"})


def check(trace: Trace) -> Iterator[Finding]:
    chosen = [
        mine for mine, path in paths(trace, plain_copies(trace)) if path and path[-1] in ADDING
    ]
    if not chosen:
        return
    mine = np.sort(np.concatenate(chosen))
    ns, moved = trace.order.per_step(int(trace.gpu.length[mine].sum())), moved_bytes(trace, mine)
    count, size = each(trace, len(mine)), None if moved is None else trace.order.per_step(moved)
    title = f"addmm copies its two-dimensional bias first: {plural(count, 'time')} {per(trace)}"
    detail = (
        f"The copies read and write {bytes_text(size)} in {time_text(ns)} {per(trace)}; a bias "
        "vector would be added in the "
        "product's epilogue without one."
    )
    evidence = {"count": count, "ns": ns, "bytes": size}
    yield Finding(RULE.name, "found", title, detail, evidence, ids(trace.gpu.id[mine]), ns)


RULE = Rule(
    name="addmm_copy",
    title="The matrix that addmm copies before it multiplies",
    check=check,
    needs=frozenset({"gpu", "ops"}),
)
