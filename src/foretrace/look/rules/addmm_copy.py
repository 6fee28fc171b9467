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

import numpy as np

from foretrace.base.units import bytes_text, time_text, times_text
from foretrace.look.rules._seen import LAYOUT, Found, Seen, cast_of, rule
from foretrace.read.tables import NONE
from foretrace.trace.intervals import Ints, split_by
from foretrace.trace.kernels import Case

ADDING = frozenset({"aten::addmm", "aten::addmm_", "aten::baddbmm", "aten::baddbmm_"})
MAKERS = frozenset({"aten::copy_", "aten::clone"})


@rule(
    "The matrix that addmm copies before it multiplies",
    "gpu ops",
    example="matmul_add_4096_compiled",
)
def _check(seen: Seen) -> Found:
    chosen = [rows for rows, path in copies_by_path(seen) if path and path[-1] in ADDING]
    if not chosen:
        return
    mine = np.sort(np.concatenate(chosen))
    count, ns, size = seen.each(len(mine)), seen.ns(mine), moved_bytes(seen, mine)
    title = f"addmm copies its two-dimensional bias first, {times_text(count)} {seen.per}"
    detail = (
        f"The copies read and write {bytes_text(size)} in {time_text(ns)} {seen.per}. A matmul "
        "adds a bias vector in its epilogue, without a copy."
    )
    evidence = {"count": count, "ns": ns, "bytes": size}
    yield seen.found(title, detail, evidence, seen.gpu.id[mine], ns)


def copies_by_path(seen: Seen) -> list[tuple[Ints, tuple[str, ...]]]:
    """Rows of `gpu` that copy within one device and keep the type, by the path of ops above."""

    def copies(case: Case) -> bool:
        made = case.op in MAKERS or case.id.get("op") == LAYOUT
        return made and case.role == "copy" and not cast_of(case)

    gpu, order, origins = seen.gpu, seen.order, seen.trace.origins
    numbers = [case.number for case in seen.cases if copies(case)]
    chosen = np.zeros(len(gpu), bool)
    chosen[order.row[np.isin(order.case, numbers)]] = True
    on_device = seen.host.named(lambda name: name.startswith(("Memcpy DtoD", "Memcpy PtoP")))
    rows = np.flatnonzero((chosen | (gpu.is_memcpy & on_device[gpu.id])) & seen.counted)
    op = origins.op[rows]
    groups = split_by(origins.host.op_paths.numbers(op), np.arange(len(rows)))
    return [(rows[group], origins.host.op_chain(int(op[group[0]]))) for group in groups]


def moved_bytes(seen: Seen, rows: Ints) -> int | None:
    """Bytes that these rows read and write in a step; None where one of them is not known."""
    gpu, known = seen.gpu, seen.trace.kernels["bytes"].cast(float).fill_null(np.nan)
    total = np.full(len(gpu), np.nan)
    total[gpu.is_kernel] = known.to_numpy()
    engine = ~gpu.is_kernel
    passes = np.where(gpu.is_memset[engine], 1, 2)  # a fill only writes
    total[engine] = np.where(gpu.bytes[engine] == NONE, np.nan, gpu.bytes[engine]) * passes
    amount = total[rows].sum()
    return None if np.isnan(amount) else seen.step(int(amount))
