"""What a file says about its rank."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from foretrace.analyze.jobs.windows import Windows
from foretrace.schema.jobs import WITHOUT_STEPS, JobGroup, RankFacts
from foretrace.schema.ledger import NoteEntry
from foretrace.schema.whole import whole

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

# `tensorboard_trace_handler` writes HOST_PID.TIME.pt.trace.json
_HOST_AND_PID = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9.-]{0,200})_(\d{1,9})\.\d{1,20}\.pt\.trace\.json"
)
_NODE = re.compile(r"(?i)(?:host|node)[_-]?\d{1,6}")


def facts_of(trace: Trace, found: Windows, kernels: pl.DataFrame, file_bytes: int) -> RankFacts:
    """The facts of one file."""
    about, host = trace.about, trace.host
    start, end = host.start[host.lasting], host.end[host.lasting]
    name, pid = _host_and_pid(trace)
    return RankFacts(
        path=trace.path,
        rank=about.rank,
        world_size=about.world_size,
        job=about.job,
        host=name,
        pid=pid,
        devices=about.devices,
        groups=groups_of(trace),
        has_time_base=trace.tables.base_ns is not None,
        start_ns=int(start.min()) if len(start) else 0,
        end_ns=int(end.max()) if len(end) else 0,
        file_bytes=file_bytes,
        events=trace.event_count,
        steps=tuple(step for step in found.number.tolist() if step != WITHOUT_STEPS),
        kernel_signature=_signature(kernels),
        notes=tuple(NoteEntry.of(note) for note in trace.ledger.notes),
        lost_data=bool(trace.ledger.gap),
    )


def _host_and_pid(trace: Trace) -> tuple[str, int | None]:
    """From the header; else from the name of the file, or of a folder around it."""
    parts = re.split(r"::|/", trace.path)
    named, stated = _HOST_AND_PID.match(parts[-1]), trace.tables.header.get("host_name")
    node = next((match[0] for part in reversed(parts) if (match := _NODE.search(part))), "")
    host = stated if isinstance(stated, str) and stated else named[1] if named else node
    return host, int(named[2]) if named else _process(trace)


def _process(trace: Trace) -> int | None:
    """The process of the first step, or of the first op."""
    host = trace.host
    events = np.flatnonzero(host.is_step | (host.is_op & host.lasting))
    return whole(trace.tables["tracks"]["pid"][int(host.track[events[0]])]) if len(events) else None


def groups_of(trace: Trace) -> tuple[JobGroup, ...]:
    """The process groups that the header names."""
    info = trace.tables.header.get("distributedInfo")
    listed = info.get("pg_config") if isinstance(info, dict) else None
    entries = listed if isinstance(listed, list) else []
    return tuple(_group(each) for each in entries if isinstance(each, dict))


def _group(entry: dict[str, Any]) -> JobGroup:
    ranks, size = entry.get("ranks"), entry.get("pg_size")
    members = ranks if isinstance(ranks, list) else []
    return JobGroup(
        str(entry.get("pg_name", "")),
        str(entry.get("pg_desc") or ""),
        size if isinstance(size, int) else None,
        tuple(rank for rank in members if isinstance(rank, int)),
    )


def _signature(kernels: pl.DataFrame) -> str:
    rows = kernels.select("name", "signature", "per_step").rows()
    return sha256(repr(rows).encode("utf-8", "replace")).hexdigest()[:16] if rows else ""
