"""Small kernels in a row inside CUDA graphs.

What it shows: pointwise kernels, reductions and copies of PyTorch that a graph runs one after the
other: how many per step, in how many runs, and which parts of the model they belong to.

Why it matters: a graph saves launches, not memory traffic. Each of these kernels reads what the one
before wrote. `torch.compile` writes one kernel for them. On an H200 (torch 2.11) a Llama-shaped
decode step took 1,021 us of GPU time in a graph of eager kernels, and 571 us in a graph of compiled
ones.

How it is computed: kernels that a graph launch started, in order of time on their stream; runs of
two and more ATen kernels of these roles, copies alone left out. One kernel of each run stays, which
takes at least as long as the shortest. The saving is at most the time of the others. Kernels that a
compiler generated are left out: it chose not to fuse them.

When it is wrong: kernels inside a graph have no shapes. The trace shows their order, not that one
reads the result of another.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.arrays import distinct
from foretrace.base.units import plural, time_text
from foretrace.look.rules._seen import Found, Seen, listing, rule
from foretrace.look.rules.graph_launches import graph_rows
from foretrace.trace.intervals import Ints

ROLES = ("pointwise", "reduction", "copy")


@rule(
    "Small kernels in a row inside CUDA graphs",
    "gpu",
    realised=0.5,
    example="llama_decode_cuda_graph_2layers",
)
def _check(seen: Seen) -> Found:
    rows, run = _runs(seen)
    if not len(rows):
        return
    length, numbers = seen.gpu.length[rows], distinct(run)
    shortest = np.full(int(run.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(shortest, run, length)
    saved = seen.step(int(length.sum()) - int(shortest[numbers].sum()))
    kernels, fewest, ns = seen.each(len(rows)), seen.each(len(numbers)), seen.ns(rows)
    count = f"{plural(kernels, 'kernel')} {seen.per} in CUDA graphs"
    most = listing(seen.costliest_groups(rows))
    detail = (
        f"Kernels of PyTorch that follow one another take {time_text(ns)} "
        f"{seen.per}, most in {most}. One kernel for each run saves at most {time_text(saved)}. "
        "The trace shows their order, not that one reads the result of another."
    )
    evidence = {"kernels": kernels, "runs": fewest, "ns": ns}
    title, fix = f"{count} could be as few as {fewest:,}", "fuse with torch.compile"
    yield seen.found(title, detail, evidence, seen.gpu.id[rows], saved or None, fix)


def _runs(seen: Seen) -> tuple[Ints, Ints]:
    """Rows of `gpu` in runs of at least two small kernels, and the number of each one's run."""
    gpu, order, roles = seen.gpu, seen.order, seen.trace.work_roles
    mine = graph_rows(seen.trace)
    mine = mine[gpu.usable[mine] & seen.counted[mine]]
    mine = mine[np.lexsort((gpu.start[mine], gpu.lane[mine]))]
    if not len(mine):
        return mine, mine
    aten = np.zeros(len(gpu), bool)
    is_aten = np.array([case.id.family.startswith("aten_") for case in order.cases], bool)
    aten[order.row] = is_aten[order.case]
    small = (aten & np.isin(roles, ROLES))[mine]
    breaks = np.ones(len(mine), bool)
    breaks[1:] = (gpu.launch[mine[1:]] != gpu.launch[mine[:-1]]) | ~small[1:] | ~small[:-1]
    breaks[1:] |= gpu.lane[mine[1:]] != gpu.lane[mine[:-1]]
    run = np.cumsum(breaks) - 1
    computes = np.bincount(run, weights=small & (roles[mine] != "copy")) > 0
    kept = ((np.bincount(run) > 1) & computes)[run]
    return mine[kept], run[kept]
