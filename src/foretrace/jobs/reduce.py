"""One file of a job, reduced to what the job needs of it."""

from __future__ import annotations

import os
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import polars as pl

from foretrace import families, opening
from foretrace.errors import TraceError
from foretrace.jobs.gpu_time import (
    Busy,
    Windows,
    busy,
    data_ranges,
    doing,
    host_comms,
    spans_table,
    steps_table,
    windows,
)
from foretrace.jobs.messages import collectives_table
from foretrace.jobs.parts import Answer, packed
from foretrace.schema.jobs import PAUSE_NS, WITHOUT_STEPS, JobGroup, RankFacts, RankPart
from foretrace.schema.ledger import NoteEntry
from foretrace.schema.whole import whole
from foretrace.sources import budget, entries
from foretrace.sources import cache as store
from foretrace.sources.folder import resolve
from foretrace.sources.limits import Limits

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

# `tensorboard_trace_handler` writes HOST_PID.TIME.pt.trace.json
_HOST_AND_PID = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9.-]{0,200})_(\d{1,9})\.\d{1,20}\.pt\.trace\.json"
)
_NODE = re.compile(r"(?i)(?:host|node)[_-]?\d{1,6}")


def answer(path: str, limits: Limits, cache: bool) -> Answer:
    """What every engine runs for every file: a file that cannot be read costs that file."""
    try:
        return Answer(part=reduce_file(path, limits, cache))
    except TraceError as problem:
        return Answer(left_out=opening.refused(path, problem))


def reduce_file(path: str, limits: Limits, cache: bool) -> RankPart:
    """The part of one file; that of an unchanged large file comes from the cache.

    Raises `TraceError` where the file cannot be read.
    """
    wanted = resolve(path, limits)
    stamp = store.stamp_of(wanted) if cache and opening.is_kept(limits) else None
    entry = entries.named("part", stamp, os.path.abspath(wanted), opening.program())
    kept = _kept(entry) if stamp else None
    if kept:
        return kept
    with budget.ceiling(opening.shown(wanted), limits):
        part = reduced(opening.load(wanted, limits, use_kept=bool(stamp), keep=False))
        if stamp and stamp == store.stamp_of(wanted):
            with budget.waiting():  # an entry is written whole
                entries.write(entry, [msgspec.msgpack.encode(part)])
    return part


def _kept(entry: str) -> RankPart | None:
    try:
        return msgspec.msgpack.decode(entries.read(entry) or b"", type=RankPart)
    except msgspec.DecodeError:
        return None  # not there, or damaged


def reduced(trace: Trace) -> RankPart:
    """The part of one trace."""
    work = busy(trace)
    found, now = windows(trace, work), doing(trace, work)
    talking = collectives_table(trace, found, now)
    kernels = _kernels(trace, found)
    frames = {
        "steps": steps_table(trace, found, now, talking),
        "collectives": talking,
        "spans": spans_table(trace, work, found),
        "host": _host(trace, found),
        "kernels": kernels,
    }
    tables = {name: packed(name, frame) for name, frame in frames.items()}
    return RankPart(_facts(trace, found, work, kernels), tables)


def _facts(trace: Trace, found: Windows, work: Busy, kernels: pl.DataFrame) -> RankFacts:
    about, host = trace.about, trace.host
    name, pid = _host_and_pid(trace)
    seen = host.lasting
    start, end = host.start[seen], host.end[seen]
    return RankFacts(
        path=trace.path,
        rank=about.rank,
        world_size=about.world_size,
        job=about.job,
        host=name,
        pid=pid,
        devices=about.devices,
        groups=tuple(_groups(trace.tables.header.get("distributedInfo"))),
        has_time_base=trace.tables.base_ns is not None,
        start_ns=int(start.min()) if len(start) else 0,
        end_ns=int(end.max()) if len(end) else 0,
        file_bytes=_size(trace.path),
        events=trace.event_count,
        steps=tuple(int(step) for step in found.number.tolist() if step != WITHOUT_STEPS),
        kernel_signature=_signature(kernels),
        notes=tuple(NoteEntry.of(note) for note in trace.ledger.notes),
        lost_data=bool(trace.ledger.gap),
    )


def _size(path: str) -> int:
    try:
        return os.path.getsize(path.partition("::")[0])
    except OSError:
        return 0


def _host_and_pid(trace: Trace) -> tuple[str, int | None]:
    name = trace.path.rsplit("/", 1)[-1].rsplit("::", 1)[-1]
    stated = trace.tables.header.get("host_name")
    match = _HOST_AND_PID.match(name)
    node = _NODE.search(trace.path.rsplit("/", 1)[-1]) or _NODE.search(trace.path)
    host = str(stated) if stated else match[1] if match else node[0] if node else ""
    pid = int(match[2]) if match else _process(trace)
    return host, pid


def _process(trace: Trace) -> int | None:
    """The process of the steps, else of the ops."""
    host = trace.host
    rows = np.flatnonzero(host.is_step | (host.is_op & host.lasting))
    if not len(rows):
        return None
    return whole(str(trace.tables["tracks"]["pid"][int(host.track[rows[0]])]))


def _groups(info: Any) -> list[JobGroup]:
    listed = info.get("pg_config") if isinstance(info, dict) else None
    found = []
    for each in listed if isinstance(listed, list) else []:
        if not isinstance(each, dict):
            continue
        ranks = each.get("ranks")
        ranks = ranks if isinstance(ranks, list) else []
        members = tuple(rank for rank in ranks if isinstance(rank, int))
        size = each.get("pg_size")
        name, about = str(each.get("pg_name", "")), str(each.get("pg_desc") or "")
        found.append(JobGroup(name, about, size if isinstance(size, int) else None, members))
    return found


def _host(trace: Trace, found: Windows) -> pl.DataFrame:
    """The table `host`: what the launching thread waits for."""
    host = trace.host
    waits = np.flatnonzero(host.is_wait & host.lasting & (host.length > PAUSE_NS))
    kinds = {"data": data_ranges(trace), "sync": waits, "comms": host_comms(trace)}
    rows = np.concatenate(list(kinds.values()))
    at = found.step_at(host.start[rows])
    frame = pl.DataFrame(
        {
            "step": [int(found.number[place]) if place >= 0 else None for place in at.tolist()],
            "kind": [kind for kind, events in kinds.items() for _ in range(len(events))],
            "start_ns": host.start[rows],
            "end_ns": host.end[rows],
            "name": [host.names[name] for name in host.name[rows].tolist()],
        },
        schema_overrides={"step": pl.Int64, "kind": pl.String, "name": pl.String},
    )
    return frame.sort("start_ns", "end_ns", "kind")


def _kernels(trace: Trace, found: Windows) -> pl.DataFrame:
    """The table `kernels`: those of the steps, by name and the sizes of their op."""
    gpu, host = trace.gpu, trace.host
    at = found.step_at(gpu.start)
    rows = np.flatnonzero(gpu.usable & gpu.is_kernel & (at >= 0))
    frame = pl.DataFrame({"name_id": host.name[gpu.id[rows]], "dur": gpu.length[rows]})
    grouped = frame.group_by("name_id").agg(
        pl.len().alias("count"), pl.col("dur").sum().alias("total_ns")
    )
    names = [host.names[name] for name in grouped["name_id"].to_list()]
    ids = [families.decode(name) for name in names]
    return grouped.with_columns(
        pl.Series("name", names, pl.String),
        pl.Series("short", [each.short for each in ids], pl.String),
        pl.Series("role", [each.role for each in ids], pl.String),
        pl.lit("").alias("signature"),
        (pl.col("count") / len(found.number)).alias("per_step"),
    ).sort("name", "signature")


def _signature(kernels: pl.DataFrame) -> str:
    rows = kernels.select("name", "signature", "per_step").rows()
    return sha256(repr(rows).encode("utf-8", "replace")).hexdigest()[:16] if rows else ""
