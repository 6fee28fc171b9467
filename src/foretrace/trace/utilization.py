"""MFU and MBU: how much of what the GPU can do at most a step makes use of.

MFU (model FLOPs utilization) is the time that the FLOP of matmuls, convolutions and attention take
at the peak of their types, over the time of the step. What is computed twice (activation
checkpointing, the scores in the backward of attention) counts twice. MBU (memory bandwidth
utilization) is the time that the known bytes of kernels take at the memory's bandwidth. Both are
over GPU time and over wall time. A FLOP or byte that is not known lowers them: below `MOST` of the
time no figure is given, and the note says what is covered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from foretrace.base.arrays import median
from foretrace.base.units import percent_text
from foretrace.trace import bounds
from foretrace.trace.analysis import Analysis
from foretrace.trace.idle import spent_in
from foretrace.trace.intervals import Bools, Floats, Ints
from foretrace.trace.metadata import device_of
from foretrace.trace.recording import op_call
from foretrace.trace.roofs import dtype_of
from foretrace.trace.spans import Span
from foretrace.work import families
from foretrace.work.costs import MAIN, peak_flops
from foretrace.work.devices import Device

# With less of the time covered a figure says more about the trace than about the program.
MOST = 0.5
# From here on what is left out is less than a figure of two digits shows.
NEARLY_ALL = 0.99


class Utilization(Struct, frozen=True):
    """Shares of the peaks, 0 to 1, and FLOP per step; None where most of it is not known.

    `profiled` says that the wall time is that of a profiled run. `note` says what is covered.
    """

    model_flops: int | None = None
    mfu_gpu: float | None = None
    mfu_wall: float | None = None
    mbu_gpu: float | None = None
    mbu_wall: float | None = None
    profiled: bool = True
    note: str = ""


class Ideal(Struct, frozen=True):
    """Of every row of `gpu`: FLOP, and the time that FLOP and bytes take at the roofs.

    NaN where it is not known. `matmul` marks the rows whose FLOP count.
    """

    flops: Floats
    flop_ns: Floats
    byte_ns: Floats
    matmul: Bools


def utilization(trace: Analysis, spans: Sequence[Span] = ()) -> Utilization:
    """Of one of these steps or calls; by default of a step, else of the whole recording."""
    device = device_of(trace.about)
    spans = spans or trace.spans.steps
    pairs = [(bounds.spent(trace, span), span.work) for span in spans]
    if not spans and trace.gpu.usable.any():
        pairs = [(spent_in(trace.idle), trace.gpu.launch_order)]
    known = [(time, work) for time, work in pairs if time is not None and time.busy_ns > 0]
    if device is None or not known:
        return Utilization(note="no peaks of the GPU" if device is None else "no GPU work")
    ideal, works = ideal_times(trace, device), [work for _, work in known]
    busy = trace.spans.median_busy(spans) or trace.gpu.busy(works[0])
    wall = max(median(time.wall_ns for time, _ in known), busy)
    flop_ns, flops, flop_note = _flops(trace, ideal, works)
    kernels = [work[trace.gpu.is_kernel[work]] for work in works]
    covered = _covered(trace, ideal.byte_ns, kernels)
    note = f"bytes known for {percent_text(covered or 0.0)} of kernel time"
    if covered is None or covered < MOST:
        byte_ns, byte_note = None, note
    else:
        byte_ns, byte_note = _usual(ideal.byte_ns, kernels), f"at least: {note}"
    return Utilization(
        None if flops is None else round(flops),
        _share(flop_ns, busy),
        _share(flop_ns, wall),
        _share(byte_ns, busy),
        _share(byte_ns, wall),
        profiled=any(time.profiled for time, _ in known),
        note="; ".join((flop_note, byte_note)),
    )


class Floor(Struct, frozen=True):
    """The least time that the matmuls and the attention of a step can take, by the GPU's peaks."""

    ns: float
    by: str  # memory (weights and cache), weights (the cache is not known) or compute


def floor(trace: Analysis, spans: Sequence[Span]) -> Floor | None:
    """Of one of these steps or calls: each operand read once, each FLOP at the peak of its type.

    None where the cost of more than a tenth of the time of matmuls is not known.
    """
    device = device_of(trace.about)
    if device is None:
        return None
    ideal = ideal_times(trace, device)
    works = [span.work[ideal.matmul[span.work]] for span in spans]
    columns = (ideal.byte_ns, ideal.flop_ns)
    if any((_covered(trace, column, works) or 0.0) < 0.9 for column in columns):
        return None
    repeated = _repeated(trace) / device.bytes_per_s * 1e9
    pairs = zip(works, spans, strict=True)
    memory = median(
        np.nansum(ideal.byte_ns[work]) - repeated[span.work].sum() for work, span in pairs
    )
    compute = _usual(ideal.flop_ns, works)
    # Whether the bytes of most of the attention are known, not only a lower bound of them.
    sure = np.zeros(len(trace.gpu), bool)
    certainty = trace.kernel_cases["cost_certainty"]
    known = certainty.is_in(["exact", "at_most", "estimate"]).to_numpy()
    sure[trace.order.row] = known[trace.order.case]
    rows = np.concatenate(works)
    rows = rows[trace.work_roles[rows] == "attention"]
    length = trace.gpu.length[rows]
    read = "memory" if 2 * length[sure[rows]].sum() >= max(length.sum(), 1) else "weights"
    return Floor(float(max(memory, compute)), read if memory >= compute else "compute")


def _repeated(trace: Analysis) -> Floats:
    """By row: bytes that `repeat_kv` writes beyond what it reads. Attention reads these copies; the
    cache holds each key and value once.
    """
    repeated = np.zeros(len(trace.gpu))
    rows = np.flatnonzero(trace.work_groups == "repeat_kv")  # the group of these copies
    op = trace.origins.op[rows]
    number = trace.origins.arguments.numbers(op)
    _, first, place = np.unique(number, return_index=True, return_inverse=True)
    calls = [op_call(trace, each) for each in op[first].tolist()]
    sources = [call.tensor(1) if call else None for call in calls]
    extra = [(each.dense().bytes or 0) - (each.bytes or 0) if each else 0 for each in sources]
    repeated[rows] = np.array(extra, np.float64)[place]
    return repeated


def _share(ideal_ns: float | None, ns: float) -> float | None:
    return None if ideal_ns is None or ns <= 0 else min(ideal_ns / ns, 1.0)


def ideal_times(trace: Analysis, device: Device | None) -> Ideal:
    """What every row of `gpu` would take at the peaks; of an unknown device only its FLOP."""
    order, cases = trace.order, trace.kernel_cases
    found = [_roofs(device, row) for row in cases.iter_rows(named=True)]
    columns = np.array(found, np.float64).reshape(-1, 3)
    spread = np.full((len(trace.gpu), 3), np.nan)
    spread[order.row] = columns[order.case]
    matmul = np.isin(trace.work_roles, sorted(MAIN)) & trace.gpu.is_kernel
    unknown, op = np.isnan(spread[:, 0]), trace.origins.call
    # what helps a matmul (a sum, a conversion) has its role; the FLOP are with another of its op
    matmul &= ~(unknown & np.isin(op, op[matmul & ~unknown]) & (op >= 0))
    return Ideal(spread[:, 0], spread[:, 1], spread[:, 2], matmul)


def _roofs(device: Device | None, row: dict[str, Any]) -> tuple[float, float, float]:
    flops = np.nan if row["flops"] is None else float(row["flops"])
    if device is None:
        return flops, np.nan, np.nan
    kernel = families.decode(row["name"])
    peak = peak_flops(device, dtype_of(row, kernel), kernel.get("tensor_core"))
    moved = np.nan if row["bytes"] is None else row["bytes"] / device.bytes_per_s * 1e9
    # what came from the cache did not take longer than the kernel
    moved = min(moved, row["median_ns"] or np.nan) if row["cache_use"] else moved
    return flops, flops / peak * 1e9 if peak else np.nan, moved


def _flops(
    trace: Analysis, ideal: Ideal, works: Sequence[Ints]
) -> tuple[float | None, float | None, str]:
    """(time at the peak, FLOP, what is covered) of one step."""
    matmuls = [work[ideal.matmul[work]] for work in works]
    covered = _covered(trace, ideal.flop_ns, matmuls)
    if covered is None:
        return None, None, "no matmuls"
    if covered < MOST:
        return None, None, f"FLOP known for {percent_text(covered)} of the time of matmuls"
    note = "FLOP of matmuls and attention"
    if covered < NEARLY_ALL:
        note = f"at least: FLOP known for {percent_text(covered)} of the time of matmuls"
    return _usual(ideal.flop_ns, matmuls), _usual(ideal.flops, matmuls), note


def _usual(column: Floats, works: Sequence[Ints]) -> float:
    return median(float(np.nansum(column[work])) for work in works)


def _covered(trace: Analysis, column: Floats, works: Sequence[Ints]) -> float | None:
    """Share of the time of these rows for which the column is known; None without any."""
    rows = np.concatenate(works)
    length = trace.gpu.length[rows]
    total = int(length.sum())
    return float(length[~np.isnan(column[rows])].sum() / total) if total else None
