"""The collectives of one rank: message, group, and what the rank did before each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from foretrace import families
from foretrace.jobs.gpu_time import Doing, Windows, host_comms, is_comms
from foretrace.model.collectives import messages, named
from foretrace.model.intervals import Ints

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

_STATED = (
    "collective", "dtype", "in_bytes", "out_bytes", "message_bytes", "group_size", "group_name",
    "seq", "comms_id",
)  # fmt: skip


def collectives_table(trace: Trace, found: Windows, now: Doing) -> pl.DataFrame:
    """The table `collectives`."""
    frame = pl.concat([_on_gpu(trace, found), _on_host(trace, found)], how="diagonal_relaxed")
    frame = frame.sort("launch_ns", "start_ns", "id").with_columns(
        pl.int_range(pl.len()).over("group").alias("order")
    )
    frame = _with_since(frame, found)
    since, start, end = (frame[name].to_numpy() for name in ("since_ns", "start_ns", "end_ns"))
    before = now.between(since, start)
    return frame.with_columns(
        pl.Series("compute_ns", before["compute_ns"]),
        pl.Series("copy_ns", before["copy_ns"]),
        pl.Series("comms_ns", before["comms_ns"] - before["both_ns"]),
        pl.Series("idle_ns", before["idle_ns"]),
        pl.Series("data_ns", before["data_ns"]),
        pl.Series("alone_ns", end - start - now.compute.between(start, end)),
    )


def _with_since(frame: pl.DataFrame, found: Windows) -> pl.DataFrame:
    begins = dict(zip(found.number.tolist(), found.window_start.tolist(), strict=True))
    window = pl.col("step").replace_strict(begins, default=None, return_dtype=pl.Int64)
    before = pl.col("end_ns").shift(1).over("group", order_by="order")
    since = pl.coalesce(before, window, "start_ns")
    return frame.with_columns(pl.min_horizontal(since, "start_ns").alias("since_ns"))


def _on_gpu(trace: Trace, found: Windows) -> pl.DataFrame:
    gpu, host = trace.gpu, trace.host
    rows = np.flatnonzero(is_comms(trace) & gpu.usable)
    launched = gpu.launched[rows]
    frame = pl.DataFrame(
        {
            "id": gpu.id[rows],
            "op": gpu.op[rows],
            "dur_ns": gpu.length[rows],
            "role": pl.repeat("comms", len(rows), dtype=pl.String, eager=True),
            "name": pl.Series(host.names, dtype=pl.String)[host.name[gpu.id[rows]]],
            "step": _steps(trace, rows, found),
            "stream": gpu.stream[rows],
            "launch_ns": launched,
            "start_ns": gpu.start[rows],
            "end_ns": gpu.end[rows],
        },
        schema_overrides={"step": pl.Int64},
    )
    stated = messages(trace, frame).select("id", *_STATED).unique("id", keep="first")
    by_name = {name: _by_name(name) for name in frame["name"].unique().to_list()}
    told = pl.col("name").replace_strict(by_name, default=None, return_dtype=pl.String)
    return (
        frame.join(stated, on="id", how="left", maintain_order="left")
        .with_columns(pl.coalesce("collective", told).alias("collective"), on_host=pl.lit(False))
        .rename({"group_name": "group"})
    )


def _steps(trace: Trace, rows: Ints, found: Windows) -> list[int | None]:
    """The step that launched each; where no launch is recorded, the one in whose window it ran."""
    gpu = trace.gpu
    moments = np.where(gpu.launch[rows] >= 0, gpu.launched[rows], -1)
    at = np.searchsorted(found.start, moments, "right") - 1
    inside = (at >= 0) & (moments < found.end[np.maximum(at, 0)])
    at = np.where(inside, at, np.where(moments < 0, found.step_at(gpu.start[rows]), -1))
    return [int(found.number[place]) if place >= 0 else None for place in at.tolist()]


def _by_name(kernel: str) -> str | None:
    told = str(families.decode(kernel).fields.get("coll") or "")
    if told == "SendRecv":
        return "send-receive"
    kind = named(told) if told else None
    return kind[0] if kind else None


def _on_host(trace: Trace, found: Windows) -> pl.DataFrame:
    host, rows = trace.host, host_comms(trace)
    names = [host.names[at].partition(":")[2] for at in host.name[rows].tolist()]
    kinds = [kind[0] if (kind := named(name)) else name for name in names]
    at = found.step_at(host.start[rows])
    steps = [int(found.number[place]) if place >= 0 else None for place in at.tolist()]
    return pl.DataFrame(
        {
            "id": rows,
            "step": steps,
            "collective": kinds,
            "on_host": np.ones(len(rows), bool),
            "stream": host.track[rows].astype(np.int64),
            "launch_ns": host.start[rows],
            "start_ns": host.start[rows],
            "end_ns": host.end[rows],
        },
        schema_overrides={"step": pl.Int64, "collective": pl.String},
    )
