"""Traces for Perfetto: a copy with what foretrace found, and chosen ranks of a job side by side.

Slices on one track never overlap: Perfetto drops slices that overlap without nesting.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from foretrace.base.arrays import distinct
from foretrace.jobs.lanes import JobLanes
from foretrace.jobs.whole_job import step_name
from foretrace.look.savings import findings
from foretrace.pages.export import chrome
from foretrace.pages.export.chrome import Record
from foretrace.pages.timeline import free_rows
from foretrace.trace.intervals import Ints, split_by
from foretrace.trace.trace import Trace
from foretrace.work import families

PID = 900_000_000  # far from any process or device
_CATEGORY = "foretrace"
_HOST = 1_000_000  # threads of the host, apart from the numbers of streams
_BESIDE = 10_000_000  # spans of one stream that overlap, apart from both


class Track(Struct, frozen=True):
    """One added track: its label, and (start, length, name, arguments) of its slices."""

    label: str
    slices: tuple[tuple[int, int, str, dict[str, Any]], ...]


def annotated(trace: Trace, path: Path) -> dict[str, int]:
    """Write the copy; returns how many slices each added track holds."""
    tracks = [*_findings(trace), *_streams(trace)]
    chrome.write(trace, path, None, _records(tracks, trace.tables.base_ns or 0))
    return {track.label: len(track.slices) for track in tracks}


def _records(tracks: list[Track], base: int) -> Iterator[chrome.Record]:
    yield chrome.metadata("process_name", PID, 0, name="foretrace")
    yield chrome.metadata("process_sort_index", PID, 0, sort_index=-1)
    for number, track in enumerate(tracks, 1):
        yield chrome.metadata("thread_name", PID, number, name=track.label)
        yield chrome.metadata("thread_sort_index", PID, number, sort_index=number)
        for start, length, name, args in track.slices:
            yield chrome.complete(_CATEGORY, name, PID, number, start - base, length, args)


def _findings(trace: Trace) -> Iterator[Track]:
    host = trace.host
    for finding in findings(trace):
        events = np.array([event for event in finding.events if host.lasting[event]], np.int64)
        gaps = np.array([each[:2] for each in finding.ranges], np.int64).reshape(-1, 2)
        start, end = gaps.T if len(gaps) else (host.start[events], host.end[events])
        if finding.state == "found" and len(start):
            said = {
                "rule": finding.rule,
                "detail": finding.detail,
                "saves ns": finding.saves_ns,
                "at most ns": finding.at_most_ns,
            }
            slices = tuple((*place, finding.title, said) for place in _joined(start, end))
            yield Track(f"finding: {finding.rule}", slices)


def _joined(start: Ints, end: Ints) -> list[tuple[int, int]]:
    """The same intervals, those that overlap made into one."""
    joined: list[list[int]] = []
    for begin, finish in sorted(zip(start.tolist(), end.tolist(), strict=True)):
        if joined and begin < joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], finish)
        else:
            joined.append([begin, finish])
    return [(begin, finish - begin) for begin, finish in joined]


def _streams(trace: Trace) -> Iterator[Track]:
    gpu = trace.gpu
    usable = np.flatnonzero(gpu.usable)
    for mine in split_by(gpu.lane[usable], usable):
        rows = free_rows(gpu.start[mine], gpu.end[mine])
        for row in distinct(rows).tolist():
            yield from _stream(trace, mine[rows == row], f" ({row + 1})" if row else "")


def _stream(trace: Trace, work: Ints, more: str) -> Iterator[Track]:
    gpu, host, origins = trace.gpu, trace.host, trace.origins
    stream = f"GPU {gpu.device[work[0]]} stream {gpu.stream[work[0]]}{more}"
    times = list(zip(gpu.start[work].tolist(), gpu.length[work].tolist(), strict=True))
    names = [host.names[number] for number in host.name[gpu.id[work]].tolist()]
    decoded = (
        (*time, families.decode(name).short or name, {"name": name})
        for time, name in zip(times, names, strict=True)
    )
    ops = (
        (*time, chain[-1], {"chain": " > ".join(chain)})
        for time, op in zip(times, origins.op[work].tolist(), strict=True)
        if (chain := origins.host.op_chain(op))
    )
    yield Track(f"decoded: {stream}", tuple(decoded))
    yield Track(f"op: {stream}", tuple(ops))


def write_ranks(lanes: JobLanes, path: Path) -> int:
    """Write chosen ranks of a job as one `.json.gz`, on one clock; returns how many slices it has.

    Each rank is a process with its streams as threads. A collective is two slices: it waits, then
    transfers. Arrows lead from the rank that came last to the transfers of the others.
    """
    host = pl.col("kind").replace_strict({"data": 0, "sync": 1}, default=2, return_dtype=pl.Int64)
    thread = pl.col("stream").fill_null(_HOST + host).alias("thread")
    parts = []
    for (_, number), part in lanes.spans.with_columns(thread).group_by(
        "rank", "thread", maintain_order=True
    ):
        rows = free_rows(part["start_ns"].to_numpy(), part["end_ns"].to_numpy())
        parts.append(part.with_columns(pl.Series("thread", int(str(number)) + rows * _BESIDE)))
    spans = pl.concat(parts) if parts else lanes.spans.with_columns(thread)
    starts = pl.concat([spans["start_ns"], lanes.steps["start_ns"]])
    base = int(starts.min() or 0)  # type: ignore[arg-type]
    header: Record = {"schemaVersion": 1, "baseTimeNanoseconds": base, "displayTimeUnit": "ms"}
    chrome.write_records(path, header, _rank_records(lanes, spans, base))
    return spans.height


def _rank_records(lanes: JobLanes, spans: pl.DataFrame, base: int) -> Iterator[Record]:
    for rank in lanes.ranks:
        yield chrome.metadata("process_name", rank, 0, name=lanes.name(rank))
        yield chrome.metadata("process_sort_index", rank, 0, sort_index=rank)
    threads = spans.select("rank", "thread", "stream", "kind").unique(("rank", "thread"))
    for rank, thread, stream, kind in threads.sort("rank", "thread").iter_rows():
        name = f"host: {kind}" if stream is None else f"stream {stream}"
        yield chrome.metadata("thread_name", rank, thread, name=name)
    columns = ("rank", "thread", "kind", "name", "start_ns", "end_ns", "step", "collective_id")
    for rank, thread, kind, name, start, end, step, collective in spans.select(columns).iter_rows():
        args = {"step": step} | ({} if collective is None else {"collective": collective})
        shown = f"{name} ({kind})" if kind in ("wait", "transfer") else name or kind
        yield chrome.complete(kind, shown, rank, thread, start - base, end - start, args)
    yield from _arrows(spans, base)
    yield from _steps(lanes.steps, base)


def _steps(steps: pl.DataFrame, base: int) -> Iterator[Record]:
    """From the first to the last of the ranks; steps of pipeline stages overlap."""
    yield chrome.metadata("process_name", PID, 0, name="steps")
    yield chrome.metadata("process_sort_index", PID, 0, sort_index=-1)
    rows = free_rows(steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy())
    for row, (step, start, end) in zip(rows.tolist(), steps.iter_rows(), strict=True):
        name = step_name(step).removeprefix("the ")
        yield chrome.complete("step", name, PID, row, start - base, end - start, {})


def _arrows(spans: pl.DataFrame, base: int) -> Iterator[Record]:
    met = spans.filter(pl.col("kind") == "transfer", pl.col("collective_id").is_not_null())
    last = met.filter("last").unique("collective_id", keep="first", maintain_order=True)
    ends = met.filter(~pl.col("last")).join(last, on="collective_id", suffix="_last")
    places = ("rank_last", "thread_last", "start_ns_last", "rank", "thread", "start_ns")
    for number, row in enumerate(ends.select(places).iter_rows()):
        for phase, (rank, thread, at) in (("s", row[:3]), ("f", row[3:])):
            yield chrome.arrow(phase, number, "last arrival", rank, thread, at - base)
