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

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.rules._common import costliest_groups, counted, each, ids, listing, per
from foretrace.analyze.rules.graph_launches import graph_rows
from foretrace.base.arrays import distinct
from foretrace.base.units import plural, time_text
from foretrace.model.intervals import Bools, Ints
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule

ROLES = ("pointwise", "reduction", "copy")
ATEN = "aten_"


def _check(trace: Trace) -> Iterator[Finding]:
    rows, run = _runs(trace)
    if not len(rows):
        return
    gpu, runs = trace.gpu, len(distinct(run))
    length = gpu.length[rows]
    shortest = np.full(int(run.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(shortest, run, length)
    total = int(length.sum())
    saved = trace.order.per_step(total - int(shortest[distinct(run)].sum()))
    kernels, fewest = each(trace, len(rows)), each(trace, runs)
    count = f"{plural(kernels, 'kernel')} {per(trace)} in CUDA graphs"
    most = listing(costliest_groups(trace, rows))
    detail = (
        f"Kernels of PyTorch that follow one another take {time_text(trace.order.per_step(total))} "
        f"{per(trace)}, most in {most}. One kernel for each run saves at most {time_text(saved)}. "
        "The trace shows their order, not that one reads the result of another."
    )
    evidence = {"kernels": kernels, "runs": fewest, "ns": trace.order.per_step(total)}
    title, fix = f"{count} could be as few as {fewest:,}", "fuse with torch.compile"
    events = ids(gpu.id[rows])
    yield Finding(RULE.name, "found", title, detail, evidence, events, saved or None, fix)


def _runs(trace: Trace) -> tuple[Ints, Ints]:
    """Rows of `gpu` in runs of at least two small kernels, and the number of each one's run."""
    gpu, mine = trace.gpu, graph_rows(trace)
    mine = mine[gpu.usable[mine] & counted(trace)[mine]]
    mine = mine[np.lexsort((gpu.start[mine], gpu.lane[mine]))]
    small = _small(trace)[mine]
    breaks = np.ones(len(mine), bool)
    breaks[1:] = (gpu.launch[mine[1:]] != gpu.launch[mine[:-1]]) | ~small[1:] | ~small[:-1]
    breaks[1:] |= gpu.lane[mine[1:]] != gpu.lane[mine[:-1]]
    run = np.cumsum(breaks) - 1
    computes = small & (trace.work_roles[mine] != "copy")
    several = np.bincount(run) > 1 if len(run) else np.zeros(0, bool)
    worth = several & (np.bincount(run, weights=computes) > 0) if len(run) else several
    kept = worth[run]
    return mine[kept], run[kept]


def _small(trace: Trace) -> Bools:
    """Rows of `gpu` that are small kernels of PyTorch."""
    order = trace.order
    aten = np.array([case.id.family.startswith(ATEN) for case in order.cases], bool)
    found = np.zeros(len(trace.gpu), bool)
    found[order.row] = aten[order.case]
    return found & np.isin(trace.work_roles, ROLES)


RULE = Rule(
    "fusable_in_graphs", "Small kernels in a row inside CUDA graphs", _check, ("gpu",), realised=0.5
)
