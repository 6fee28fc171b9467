"""Chosen ranks of a job as one trace for Perfetto, on one clock.

Each rank is a process with its streams as threads. A collective waits, then transfers: two slices.
Arrows lead from the rank that came last to the others, at the moment at which they can go on.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import msgspec
import polars as pl

from foretrace.analyze.jobs.lanes import JobLanes
from foretrace.base import files
from foretrace.schema.jobs import WITHOUT_STEPS
from foretrace.show.html.timeline import free_rows
from foretrace.show.share import chrome
from foretrace.show.share.chrome import Record
from foretrace.show.share.perfetto import PID

_HOST = 1_000_000  # threads of the host, apart from the numbers of streams
_BESIDE = 10_000_000  # spans of one stream that overlap, apart from both


def write(lanes: JobLanes, path: Path) -> int:
    """Write the ranks as `.json.gz`; returns how many slices there are."""
    spans = _placed(lanes.spans)
    starts = pl.concat([spans["start_ns"], lanes.steps["start_ns"]])
    base = int(starts.min() or 0)  # type: ignore[arg-type]
    header: Record = {"schemaVersion": 1, "baseTimeNanoseconds": base, "displayTimeUnit": "ms"}
    with (
        files.replacing(path) as draft,
        draft.open("wb") as raw,
        gzip.GzipFile("", "wb", 6, raw, mtime=0) as file,
    ):
        file.write(msgspec.json.encode(header)[:-1] + b',"traceEvents":[\n')
        for count, record in enumerate(_records(lanes, spans, base)):
            file.write((b",\n" if count else b"") + msgspec.json.encode(record))
        file.write(b"\n]}\n")
    return spans.height


def _placed(spans: pl.DataFrame) -> pl.DataFrame:
    """The spans with a thread each: Perfetto drops what overlaps on one thread without nesting."""
    host = pl.col("kind").replace_strict({"data": 0, "sync": 1}, default=2, return_dtype=pl.Int64)
    thread = pl.col("stream").fill_null(_HOST + host).alias("thread")
    parts = []
    for (_, number), part in spans.with_columns(thread).group_by(
        "rank", "thread", maintain_order=True
    ):
        rows = free_rows(part["start_ns"].to_numpy(), part["end_ns"].to_numpy())
        parts.append(part.with_columns(pl.Series("thread", int(str(number)) + rows * _BESIDE)))
    return pl.concat(parts) if parts else spans.with_columns(thread)


def _records(lanes: JobLanes, spans: pl.DataFrame, base: int) -> Iterator[Record]:
    for rank in lanes.ranks:
        host = lanes.hosts.get(rank, "")
        name = f"rank {rank}" + (f" ({host})" if host else "")
        yield chrome.metadata("process_name", rank, 0, name=name)
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
        name = "recording" if step == WITHOUT_STEPS else f"step {step}"
        yield chrome.complete("step", name, PID, row, start - base, end - start, {})


def _arrows(spans: pl.DataFrame, base: int) -> Iterator[Record]:
    """From the last arrival to the transfer of every other rank."""
    met = spans.filter(pl.col("kind") == "transfer", pl.col("collective_id").is_not_null())
    last = met.filter("last").unique("collective_id", keep="first", maintain_order=True)
    ends = met.filter(~pl.col("last")).join(last, on="collective_id", suffix="_last")
    places = ("rank_last", "thread_last", "start_ns_last", "rank", "thread", "start_ns")
    for number, row in enumerate(ends.select(places).iter_rows()):
        for phase, (rank, thread, at) in (("s", row[:3]), ("f", row[3:])):
            yield chrome.arrow(phase, number, "last arrival", rank, thread, at - base)
