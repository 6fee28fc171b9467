"""Copies and fills on the GPU, whether made by a kernel or by the copy engine."""

from __future__ import annotations

import numpy as np
import polars as pl

from foretrace.analyze.rules._common import counted
from foretrace.analyze.rules.casts import cast_of
from foretrace.model.intervals import Ints, split_by
from foretrace.model.trace import Trace
from foretrace.schema.tables import NONE

MAKERS = frozenset({"aten::copy_", "aten::clone"})
LAYOUT = "layout_transform"  # what the families call a change between NCHW and NHWC


def plain_copies(trace: Trace) -> Ints:
    """Rows of `gpu` that copy within one device and keep the type."""
    gpu, order = trace.gpu, trace.order
    copies = [case for case in order.cases if case.role == "copy" and not cast_of(case)]
    made = [case for case in copies if case.op in MAKERS or case.id.get("op") == LAYOUT]
    chosen = np.zeros(len(gpu), bool)
    chosen[order.row[np.isin(order.case, [case.number for case in made])]] = True
    on_device = trace.host.named(lambda name: name.startswith(("Memcpy DtoD", "Memcpy PtoP")))
    return np.flatnonzero((chosen | (gpu.is_memcpy & on_device[gpu.id])) & counted(trace))


def paths(trace: Trace, rows: Ints) -> list[tuple[Ints, tuple[str, ...]]]:
    """These rows of `gpu` by the path of ops above them."""
    host, op = trace.origins.host, trace.origins.op[rows]
    groups = split_by(host.op_paths.numbers(op), np.arange(len(rows)))
    return [(rows[group], host.op_chain(int(op[group[0]]))) for group in groups]


def moved_bytes(trace: Trace, rows: Ints) -> int | None:
    """Bytes that these rows read and write together; None where one of them is not known."""
    gpu = trace.gpu
    total = np.full(len(gpu), np.nan)
    total[gpu.is_kernel] = trace.kernels["bytes"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    engine = ~gpu.is_kernel
    passes = np.where(gpu.is_memset[engine], 1, 2)  # a fill only writes
    total[engine] = np.where(gpu.bytes[engine] == NONE, np.nan, gpu.bytes[engine]) * passes
    amount = total[rows].sum()
    return None if np.isnan(amount) else int(amount)
