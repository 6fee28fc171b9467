"""One file of a job, reduced to what the job needs of it: facts about its rank, and five tables.

What the profiler writes beside a collective, or beside the op that launched it, is read once, in
`trace/collectives.py`. Where it wrote nothing, the `c10d` op above the launch names the collective,
else the kernel's name: NCCL's all-to-all runs the kernel of sends and receives. A backend on the
host (gloo) annotates a range for each collective, with the sizes of its tensor.

A rank computes, communicates, copies or does nothing; work on all streams counts. On a rank without
GPU work, ops on the host are its compute and collectives on the host its communication.

Its steps are windows that tile the recording. A window begins where the GPU work of the step before
ends. The first window begins with its host range, and so does one whose number does not follow. GPU
work belongs to the step that launched it. Where no launch is recorded, it belongs to the window in
which it starts.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from zlib import crc32

import msgspec
import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from foretrace.base import budget
from foretrace.base.arrays import coded, distinct, with_gaps
from foretrace.base.budget import Limits, keeps_everything
from foretrace.base.errors import ForetraceError, TraceError
from foretrace.base.patterns import regex
from foretrace.base.units import whole
from foretrace.jobs.whole_job import (
    PAUSE_NS,
    WITHOUT_STEPS,
    FileAnswer,
    JobGroup,
    RankFacts,
    RankPart,
    packed,
)
from foretrace.read import cache as store
from foretrace.read import remote
from foretrace.read.bytestream import is_remote
from foretrace.read.ledger import NoteEntry
from foretrace.read.tables import NONE
from foretrace.trace import opening
from foretrace.trace.arguments import Signature, distinct_lists, json_text
from foretrace.trace.collectives import message_sizes, named
from foretrace.trace.host import step_number
from foretrace.trace.intervals import Bools, Floats, IntervalUnion, Ints
from foretrace.trace.spans import Span
from foretrace.trace.trace import Trace
from foretrace.work import families
from foretrace.work.costs.pointwise import ELEMENT_TYPES

KINDS = ("compute", "comms", "copy")
COMPUTE, COMMS, COPY = range(3)
HOST_COMMS = regex(r"(?:gloo|mpi|ucc):\w+")  # collectives that ran on the host
_COMMS_OP = regex(r"_?c10d|record_param_comms|(?:gloo|mpi|ucc):")
DATA = regex(r"(?i)data_?loader|(?:get|next|load)_batch")  # a thread waits for data


class RankWork(Struct, frozen=True):
    """Work in order of time, each of one of `KINDS`; `event` is its row of `events`.

    `row` is its row of `gpu`; it has no meaning where the work is on the host.
    """

    event: Ints
    row: Ints
    kind: Ints
    start: Ints
    end: Ints
    on_host: bool

    def of(self, *kinds: int) -> IntervalUnion:
        """When work of these kinds ran."""
        chosen = np.isin(self.kind, kinds)
        return IntervalUnion(self.start[chosen], self.end[chosen])


class Doing(Struct, frozen=True):
    """Unions over all streams, to be asked about any stretch of time."""

    compute: IntervalUnion
    comms: IntervalUnion
    compute_or_comms: IntervalUnion
    anything: IntervalUnion
    anything_or_data: IntervalUnion

    def between(self, start: Ints, end: Ints) -> dict[str, Ints]:
        """For each stretch the times of the table `steps`."""
        compute, comms = self.compute.between(start, end), self.comms.between(start, end)
        useful, busy = (each.between(start, end) for each in (self.compute_or_comms, self.anything))
        idle, data = end - start - busy, self.anything_or_data.between(start, end) - busy
        return {
            "compute_ns": compute,
            "comms_ns": comms,
            "both_ns": compute + comms - useful,
            "copy_ns": busy - useful,
            "idle_ns": idle,
            "data_ns": data,
            "host_ns": idle - data,
        }


def _work_on_host(trace: Trace) -> RankWork:
    host, talking, loading = trace.host, ranges(trace, HOST_COMMS), ranges(trace, DATA)
    data = IntervalUnion(host.start[loading], host.end[loading])
    ops = np.flatnonzero(host.is_op & host.lasting & ~host.named(_COMMS_OP.match, host.is_op))
    ops = ops[~data.holds(host.start[ops])]
    event = np.concatenate((ops, talking))
    kind = np.repeat([COMPUTE, COMMS], [len(ops), len(talking)])
    order = np.argsort(host.start[event], kind="stable")
    event, kind = event[order], kind[order]
    return RankWork(event, event, kind, host.start[event], host.end[event], True)


def ranges(trace: Trace, pattern: re.Pattern[str]) -> Ints:
    """The ranges with such a name; a trace with stacks has many more names of Python functions."""
    host = trace.host
    among = host.is_kind("user_annotation", "cpu_op") & host.lasting
    return np.flatnonzero(host.named(pattern.search, among))


def doing(trace: Trace, work: RankWork) -> Doing:
    """What the rank did, and when its data loader was at work."""
    host, loading = trace.host, ranges(trace, DATA)
    if len(trace.gpu) and not trace.gpu.aligned:
        loading = loading[:0]  # times of another clock do not explain a gap
    anything = work.of(*range(len(KINDS)))
    start = np.concatenate((anything.start, host.start[loading]))
    end = np.concatenate((anything.end, host.end[loading]))
    useful = work.of(COMPUTE, COMMS)
    return Doing(work.of(COMPUTE), work.of(COMMS), useful, anything, IntervalUnion(start, end))


_FEW = 0.5  # of the median step, in work and in time: a step at either end with less was cut
_LOST = 0.01  # of the launches of a step: their GPU events are missing


class Windows(Struct, frozen=True):
    """Steps in order of time; `owner` is the place of the step of each piece of work, or -1."""

    number: Ints
    start: Ints
    end: Ints
    window_start: Ints
    window_end: Ints
    owner: Ints
    whole: Bools

    def at(self, moments: Ints) -> Ints:
        """The place of the window that holds each moment, or -1."""
        place = np.searchsorted(self.window_start, moments, "right") - 1
        inside = (place >= 0) & (moments < self.window_end[np.maximum(place, 0)])
        return np.where(inside, place, -1)

    def numbers(self, places: Ints) -> pl.Series:
        """The number of the step at each place; null where the place is -1."""
        return with_gaps(self.number[np.maximum(places, 0)], places >= 0, "step")


def windows(trace: Trace, work: RankWork) -> Windows:
    """The windows of a recording; one without steps is one step.

    A number has one range: the first, and of those that begin together the longest.
    """
    by_number: dict[int, Span] = {}
    for span in sorted(trace.spans.steps, key=lambda span: (span.start_ns, -span.end_ns)):
        by_number.setdefault(step_number(span.name) or 0, span)
    spans = list(by_number.values())
    if not spans:
        return _one(trace, work)
    number, start, end, begin, reach = np.array(_tiles(trace, spans), np.int64).T
    whole = np.ones(len(spans), bool)
    found = Windows(number, start, end, begin, reach, np.zeros(0, np.int64), whole)
    owner = _owners(trace, spans, work, found)
    return replace(found, owner=owner, whole=_whole(trace, spans, work, owner))


def _tiles(trace: Trace, spans: Sequence[Span]) -> list[tuple[int, int, int, int, int]]:
    gpu, rows, reach, before = trace.gpu, [], 0, -2
    for span in spans:
        number = step_number(span.name) or 0
        begin = reach if before == number - 1 else max(reach, span.start_ns)
        ends = gpu.end[span.work][gpu.usable[span.work]]
        reach = max(begin, int(ends.max()) if len(ends) else span.end_ns)
        rows.append((number, span.start_ns, span.end_ns, begin, reach))
        before = number
    return rows


def _one(trace: Trace, work: RankWork) -> Windows:
    host = trace.host
    seen = host.lasting & ~host.is_kind("span", "overhead")
    start, end = host.start[seen], host.end[seen]
    edges = (start.min(initial=start[0]), end.max(initial=end[0])) if len(start) else (0, 0)
    first, last = (np.array([edge], np.int64) for edge in edges)
    owner, whole = np.zeros(len(work.row), np.int64), np.array([not trace.ledger.gap])
    return Windows(np.array([WITHOUT_STEPS]), first, last, first, last, owner, whole)


def _owners(trace: Trace, spans: Sequence[Span], work: RankWork, found: Windows) -> Ints:
    by_time = found.at(work.start)
    if work.on_host:
        return by_time
    gpu = trace.gpu
    owner = np.full(len(gpu), -1, np.int64)
    for place, span in enumerate(spans):
        owner[span.work] = place
    unlinked = (gpu.launch < 0) & ~gpu.before_recording
    return np.where(unlinked[work.row], by_time, owner[work.row])


def _whole(trace: Trace, spans: Sequence[Span], work: RankWork, owner: Ints) -> Bools:
    """Not cut: neither by the start or the end of the recording, nor by what the file has lost."""
    count = np.bincount(owner[owner >= 0], minlength=len(spans))
    whole = np.ones(len(spans), bool)
    if len(spans) > 1:
        lasts = np.array([span.cpu_ns for span in spans])
        for edge in (0, -1):
            less = [each[edge] < _FEW * np.median(np.delete(each, edge)) for each in (count, lasts)]
            whole[edge] = not all(less)
    if trace.ledger.gap:
        whole &= (count == count.max()) & (len(spans) > 1)
    if not work.on_host and trace.ledger.count("gpu_events_missing"):
        whole &= _lost_share(trace, spans) <= _LOST
    return whole


def _lost_share(trace: Trace, spans: Sequence[Span]) -> Floats:
    """The share of each step's launches without their GPU event."""
    host, gpu = trace.host, trace.gpu
    calls = np.flatnonzero(host.is_launch & host.timed)
    calls = calls[~host.captures.holds(host.start[calls])]
    lost = calls[~np.isin(calls, gpu.launch)]
    starts, ends = ([span.start_ns for span in spans], [span.end_ns for span in spans])

    def inside(rows: Ints) -> Ints:
        moments = np.sort(host.start[rows])
        return np.searchsorted(moments, ends) - np.searchsorted(moments, starts)

    return inside(lost) / np.maximum(inside(calls), 1)


def steps_table(found: Windows, work: RankWork, now: Doing) -> pl.DataFrame:
    """The table `steps`."""
    kernels = (work.kind != COPY) & (not work.on_host)
    counts = {
        name: np.bincount(found.owner[chosen & (found.owner >= 0)], minlength=len(found.number))
        for name, chosen in (("kernels", kernels), ("collectives", work.kind == COMMS))
    }
    return pl.DataFrame(
        {
            "step": found.number,
            "start_ns": found.start,
            "end_ns": found.end,
            "window_start_ns": found.window_start,
            "window_end_ns": found.window_end,
            **now.between(found.window_start, found.window_end),
            **counts,
            "whole": found.whole,
        }
    )


# `tensorboard_trace_handler` writes HOST_PID.TIME.pt.trace.json
_HOST_AND_PID = regex(r"([A-Za-z0-9][A-Za-z0-9.-]{0,200})_(\d{1,9})\.\d{1,20}\.pt\.trace\.json")
_NODE = regex(r"(?i)(?:host|node)[_-]?\d{1,6}")
_MOST_TEXT = 160  # characters of sizes; a checksum stands for the rest


def answer(path: str, limits: Limits, cache: bool) -> FileAnswer:
    """The part of one file, or why it cannot be read: no bad file stops the job."""
    try:
        return FileAnswer(part=reduce_file(path, limits, cache))
    except TraceError as problem:
        return FileAnswer(left_out=opening.refused(path, problem))
    except ForetraceError:
        raise
    except Exception as problem:  # noqa: BLE001 - one unknown file must not stop the job
        what = f"foretrace fails on it: {type(problem).__name__}: {problem}"
        failed = TraceError("E_UNREADABLE", path, what, hint="please report this")
        return FileAnswer(left_out=opening.refused(path, failed))


def reduce_file(path: str, limits: Limits, cache: bool) -> RankPart:
    """The part of one file. The cache has the parts of large files that did not change.

    Raises `TraceError` where the file cannot be read.
    """
    stamp = _stamp(path) if cache and keeps_everything(limits) else None
    entry = store.named("part", stamp, opening.program())
    kept = _kept(entry) if stamp else None
    if kept:
        return kept
    with budget.ceiling(opening.shown(path), limits):
        trace = opening.load_alone(path, limits, use_kept=bool(stamp), keep=False)
        if (merged := len(trace.tables.merged)) > 1:  # which rank waits for which is not recorded
            what = f"{merged} ranks were merged into this file"
            hint = "give the files that the ranks wrote"
            raise TraceError("E_MERGED", trace.path, what, hint=hint)
        part = reduced(trace, size_of(path))
        if stamp and stamp == _stamp(path):
            with budget.waiting():  # the time to write an entry does not count
                store.write(entry, [msgspec.msgpack.encode(part)])
    return part


def _stamp(path: str) -> str | None:
    """What changes when a file does, and its path, which may name its rank and host."""
    if is_remote(path):
        known, place = remote.stamp_of(path), path
    else:
        known, place = store.stamp_of(path), os.path.abspath(path)
    return f"{known} {place}" if known else None


def _kept(entry: str) -> RankPart | None:
    try:
        return msgspec.msgpack.decode(store.read(entry) or b"", type=RankPart)
    except msgspec.DecodeError:
        return None  # missing or damaged


def reduced(trace: Trace, file_bytes: int) -> RankPart:
    """The part of one trace."""
    # The GPU work of a rank; where there is none, its ops and collectives on the host.
    # Collectives are known by their name, or by what is recorded beside them.
    gpu, host = trace.gpu, trace.host
    if not len(gpu):
        work = _work_on_host(trace)
    else:
        name, kind = host.name[gpu.id], np.where(gpu.is_kernel, COMPUTE, COPY)
        used = distinct(name[gpu.is_kernel]).tolist()
        talking = [at for at in used if families.decode(host.names[at]).role == KINDS[COMMS]]
        stated = np.isin(gpu.id, trace.tables["comms"]["event"].to_numpy())
        kind[gpu.is_kernel & (np.isin(name, talking) | stated)] = COMMS
        rows = np.flatnonzero(gpu.usable)
        work = RankWork(gpu.id[rows], rows, kind[rows], gpu.start[rows], gpu.end[rows], False)
    found, now = windows(trace, work), doing(trace, work)
    kernels = kernels_table(trace, work, found)
    # one part and no query as a rule: a query over a few rows takes longer than the rows
    parts = (
        [_host_collectives(trace, found)] if len(ranges(trace, HOST_COMMS)) or work.on_host else []
    )
    if not work.on_host:
        parts.append(_on_gpu(trace, work, found))
    frame = pl.concat(parts, how="diagonal_relaxed") if len(parts) > 1 else parts[0]
    frame = frame[np.lexsort([frame[name].to_numpy() for name in ("id", "start_ns", "launch_ns")])]
    order, since = _since(frame, found)
    start, end = frame["start_ns"].to_numpy(), frame["end_ns"].to_numpy()
    before = now.between(since, start)
    before["comms_ns"] -= before["both_ns"]  # the five times add up
    alone = end - start - now.compute.between(start, end)
    columns = {"order": order, "since_ns": since, "alone_ns": alone}
    columns |= {name: before[name] for name in _BEFORE}
    frames = {
        "steps": steps_table(found, work, now),
        "collectives": frame.hstack([pl.Series(name, values) for name, values in columns.items()]),
        "spans": spans_table(trace, work, found),
        "host": host_table(trace, found),
        "kernels": kernels,
    }
    tables = {name: packed(name, frame) for name, frame in frames.items()}
    return RankPart(facts_of(trace, found, kernels, file_bytes), tables)


def size_of(path: str) -> int:
    """The bytes of a file; 0 where they are not known."""
    return os.path.getsize(path) if os.path.isfile(path) else 0


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
    """From the header; else from the name of the file, or of a folder around it. The process is
    else that of the first step or op.
    """
    parts = re.split(r"::|/", trace.path)
    named, stated = _HOST_AND_PID.match(parts[-1]), trace.tables.header.get("host_name")
    node = next((match[0] for part in reversed(parts) if (match := _NODE.search(part))), "")
    name = stated if isinstance(stated, str) and stated else named[1] if named else node
    if named:
        return name, int(named[2])
    host = trace.host
    first = np.flatnonzero(host.is_step | (host.is_op & host.lasting))[:1]
    pids = trace.tables["tracks"]["pid"].gather(host.track[first])
    return name, whole(pids[0]) if len(pids) else None


def _signature(kernels: pl.DataFrame) -> str:
    columns = (kernels[name].to_list() for name in ("name", "signature", "per_step"))
    rows = list(zip(*columns, strict=True))
    return sha256(repr(rows).encode("utf-8", "replace")).hexdigest()[:16] if rows else ""


def spans_table(trace: Trace, work: RankWork, found: Windows) -> pl.DataFrame:
    """Work of one kind, step and stream without a pause, named after its longest kernel."""
    host, gpu = trace.host, trace.gpu
    lane = host.track[work.event].astype(np.int64) if work.on_host else gpu.lane[work.row]
    order = np.lexsort((work.end, work.start, lane))
    lane, event, kind, start, end, owner = (
        each[order] for each in (lane, work.event, work.kind, work.start, work.end, found.owner)
    )
    stream = lane if work.on_host else gpu.stream[work.row][order]
    first = np.flatnonzero(_opens(lane, kind, owner, start, end))
    number = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(start))))
    longest = np.lexsort((-np.arange(len(start)), end - start, number))
    longest = longest[np.append(first[1:], len(start)) - 1] if len(first) else longest
    names = host.name[event[longest]]
    short = {at: families.decode(host.names[at]).short for at in distinct(names).tolist()}
    return pl.DataFrame(
        {
            "step": found.numbers(owner[first]),
            "kind": pl.Series(KINDS, dtype=pl.String)[kind[first]],
            "stream": stream[first],
            "start_ns": start[first],
            "end_ns": np.maximum.reduceat(end, first) if len(first) else end,
            "count": np.diff(np.append(first, len(start))),
            "name": pl.Series([short[name] for name in names.tolist()], dtype=pl.String),
            "collective": with_gaps(event[first], kind[first] == COMMS),
        }
    )


def _opens(lane: Ints, kind: Ints, owner: Ints, start: Ints, end: Ints) -> Bools:
    """Which work begins a span; it is sorted by lane and time."""
    opens = np.ones(len(start), bool)
    if not len(start):
        return opens
    shift = lane * (int(end.max()) - int(start.min()) + 1) - int(start.min())
    reach = np.maximum.accumulate(end + shift) - shift  # of the lane so far
    changes = [each[1:] != each[:-1] for each in (lane, kind, owner)]
    pauses, talks = start[1:] - reach[:-1] > PAUSE_NS, kind[1:] == COMMS
    opens[1:] = np.logical_or.reduce([*changes, pauses, talks])
    return opens


def host_table(trace: Trace, found: Windows) -> pl.DataFrame:
    """What the host waits for: data, the GPU, collectives on the host."""
    host = trace.host
    waits = np.flatnonzero(host.is_wait & host.lasting & (host.length > PAUSE_NS))
    kinds = {"data": ranges(trace, DATA), "sync": waits, "comms": ranges(trace, HOST_COMMS)}
    event = np.concatenate(list(kinds.values()))
    order = np.argsort(host.start[event], kind="stable")
    event = event[order]
    kind = np.repeat(np.arange(len(kinds)), [len(each) for each in kinds.values()])[order]
    return pl.DataFrame(
        {
            "step": found.numbers(found.at(host.start[event])),
            "kind": pl.Series(list(kinds), dtype=pl.String)[kind],
            "start_ns": host.start[event],
            "end_ns": host.end[event],
            "name": pl.Series(
                [host.names[at] for at in host.name[event].tolist()], dtype=pl.String
            ),
        }
    )


def kernels_table(trace: Trace, work: RankWork, found: Windows) -> pl.DataFrame:
    """The kernels of the whole steps by name and sizes; of all steps where none is whole."""
    host, steps = trace.host, found.whole if found.whole.any() else np.ones_like(found.whole)
    chosen = (found.owner >= 0) & steps[found.owner] & (work.kind != COPY) & (not work.on_host)
    sizes, texts = _sizes(trace, work.row[chosen])
    keys, number = coded(host.name[work.event[chosen]].astype(np.int64) * len(texts) + sizes)
    count = np.bincount(number, minlength=len(keys))
    total = np.zeros(len(keys), np.int64)
    np.add.at(total, number, (work.end - work.start)[chosen])
    names = [families.decode(host.names[key // len(texts)]) for key in keys.tolist()]
    signatures = [texts[key % len(texts)] for key in keys.tolist()]
    rows = sorted(range(len(keys)), key=lambda at: (names[at].name, signatures[at]))
    return pl.DataFrame(
        {
            "name": pl.Series([names[at].name for at in rows], dtype=pl.String),
            "short": pl.Series([names[at].short for at in rows], dtype=pl.String),
            "role": pl.Series([names[at].role for at in rows], dtype=pl.String),
            "signature": pl.Series([signatures[at] for at in rows], dtype=pl.String),
            "count": count[rows],
            "total_ns": total[rows],
            "per_step": count[rows] / int(steps.sum()),
        }
    )


def _sizes(trace: Trace, rows: Ints) -> tuple[Ints, list[str]]:
    """A number for the sizes of each kernel's op, and their text; without sizes, the grid's."""
    arguments, gpu = trace.origins.arguments, trace.gpu
    stated = arguments.numbers(trace.origins.op[rows])
    grids, grid = distinct_lists(
        trace.tables["gpu"]["grid"].gather(np.maximum(gpu.side_row[rows], 0))
    )
    texts = [_text(each) for each in arguments.signatures]
    texts += [f"grid {json_text(each)}" if each else "" for each in grids]
    numbers = {text: at for at, text in enumerate(dict.fromkeys(texts))}
    number = np.array([numbers[text] for text in texts], np.int64)
    place = np.where(stated >= 0, stated, len(arguments.signatures) + grid)
    return number[place] if len(rows) else place, list(numbers)


def _text(signature: Signature) -> str:
    text = json_text([size for size in signature.dims if size])
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}… {crc32(text.encode()):08x}"


_BEFORE = ("compute_ns", "copy_ns", "comms_ns", "idle_ns", "data_ns")
_STATED = (
    "dtype", "in_bytes", "out_bytes", "message_bytes", "group_size", "seq", "comms_id",
)  # fmt: skip
_ASKED = ("c10d::", "c10d_functional::", "_c10d_functional::")
# in and out are equal: the message is the tensor
_OF_ONE_SIZE = ("all-reduce", "broadcast", "reduce", "send", "receive")
_WRITTEN = {own: (name, size) for name, (own, size) in ELEMENT_TYPES.items()}


def _since(frame: pl.DataFrame, found: Windows) -> tuple[list[int], Ints]:
    """The place of each in its group, and when the one before it in the group ended; for the first
    of a group, when its step began.
    """
    begins = dict(zip(found.number.tolist(), found.window_start.tolist(), strict=True))
    counts, ends = Counter[str | None](), dict[str | None, int]()
    order, since = [], []
    for group, step, start, end in zip(
        *(frame[name].to_list() for name in ("group", "step", "start_ns", "end_ns")), strict=True
    ):
        order.append(counts[group])
        since.append(min(ends.get(group, begins.get(step, start)), start))
        counts[group] += 1
        ends[group] = end
    return order, np.array(since, np.int64)


def _on_gpu(trace: Trace, work: RankWork, found: Windows) -> pl.DataFrame:
    gpu, host, chosen = trace.gpu, trace.host, work.kind == COMMS
    rows, event = work.row[chosen], work.event[chosen]
    names, asked = host.name[event].tolist(), _ops(trace, gpu.op[rows])
    told = {name: _told(host.names[name]) for name in set(names)}
    stated = message_sizes(trace, event, gpu.op[rows])
    kinds = [
        kind or op or told[name]
        for kind, op, name in zip(stated["collective"], asked, names, strict=True)
    ]
    others = zip(kinds, stated["target_rank"], stated["source_rank"], strict=True)
    peers = [to if kind == "send" else source for kind, to, source in others]
    return pl.DataFrame(
        {
            "id": event,
            "step": found.numbers(found.owner[chosen]),
            "group": stated["group_name"],
            "collective": pl.Series(kinds, dtype=pl.String),
            **{name: stated[name] for name in _STATED},
            "peer": pl.Series(peers, dtype=pl.Int64),
            "on_host": np.zeros(len(rows), bool),
            "stream": gpu.stream[rows],
            "launch_ns": gpu.launched[rows],
            "ready_ns": _ready(trace, work, rows),
            "start_ns": gpu.start[rows],
            "end_ns": gpu.end[rows],
        }
    )


def _ready(trace: Trace, work: RankWork, rows: Ints) -> Ints:
    """When the compute and copies are over that were launched before each collective.

    NONE where other work, on a stream that it does not wait for, runs on when it starts.
    """
    gpu = trace.gpu
    other = work.row[(work.kind != COMMS) & (gpu.launch[work.row] >= 0)]
    other = other[np.argsort(gpu.launched[other], kind="stable")]
    before = np.searchsorted(gpu.launched[other], gpu.launched[rows]) - 1
    over = np.append(np.maximum.accumulate(gpu.end[other]), NONE)[before]
    known = (before >= 0) & (gpu.launch[rows] >= 0) & (over <= gpu.start[rows])
    return np.where(known, over, NONE)


def _ops(trace: Trace, ops: Ints) -> list[str | None]:
    """The collective that the `c10d` op above each op names."""
    host = trace.host
    ranges = host.is_kind("user_annotation", "cpu_op")
    above = host.nearest(ops, host.named(lambda name: name.startswith(_ASKED), ranges)).tolist()
    return [named(host.names[host.name[op]]) if op >= 0 else None for op in above]


def _told(kernel: str) -> str | None:
    """The collective that a kernel's name states; sends and receives have one kernel."""
    told = families.decode(kernel).get("coll")
    return "send-receive" if told == "SendRecv" else named(str(told)) if told else None


def _host_collectives(trace: Trace, found: Windows) -> pl.DataFrame:
    host, rows = trace.host, ranges(trace, HOST_COMMS)
    kinds = [_kind(host.names[name].partition(":")[2]) for name in host.name[rows].tolist()]
    sizes = [_message(trace, *pair) for pair in zip(rows.tolist(), kinds, strict=True)]
    groups, asked = groups_of(trace), _asked(trace, rows, kinds)
    only = groups[0] if len(groups) == 1 else JobGroup("")  # which of several is not recorded
    peers = [_peer(trace, op, groups) for op in asked]
    return pl.DataFrame(
        {
            "id": rows,
            "step": found.numbers(found.at(host.start[rows])),
            "group": pl.repeat(only.name or None, len(rows), dtype=pl.String, eager=True),
            "group_size": pl.repeat(only.size, len(rows), dtype=pl.Int64, eager=True),
            "collective": pl.Series(kinds, dtype=pl.String),
            "dtype": pl.Series([dtype for dtype, _ in sizes], dtype=pl.String),
            "message_bytes": pl.Series([size for _, size in sizes], dtype=pl.Int64),
            "peer": pl.Series(peers, dtype=pl.Int64),
            "on_host": np.ones(len(rows), bool),
            "stream": host.track[rows].astype(np.int64),
            "launch_ns": np.minimum(host.start[rows], host.start[asked]),
            "start_ns": host.start[rows],
            "end_ns": host.end[rows],
        }
    )


def _kind(name: str) -> str:
    return named(name) or name.removeprefix("c10d::")


def _message(trace: Trace, event: int, kind: str) -> tuple[str | None, int | None]:
    """Type and bytes of the tensor that a host collective was given."""
    found = trace.arguments.of(event)
    if found is None or not found.tensors:
        return None, None
    dtype, size = _WRITTEN.get(found.types[0] if found.types else "", (None, 0))
    known = dtype and kind in _OF_ONE_SIZE
    return dtype, math.prod(found.tensors[0]) * size if known else None


def _asked(trace: Trace, rows: Ints, kinds: list[str]) -> list[int]:
    """The `c10d` op in which the program called each, where every one has its own."""
    host, found = trace.host, list(map(int, rows))
    ops = np.flatnonzero(host.named(lambda name: name.startswith("c10d::"), host.is_op))
    asked = [_kind(host.names[name]) for name in host.name[ops].tolist()]
    for kind in set(kinds):
        mine = [at for at, each in enumerate(kinds) if each == kind]
        own = [op for op, each in zip(ops.tolist(), asked, strict=True) if each == kind]
        for at, op in zip(mine, own, strict=True) if len(mine) == len(own) else ():
            found[at] = op
    return found


def _peer(trace: Trace, op: int, groups: Sequence[JobGroup]) -> int | None:
    """The rank that `c10d::send` or `c10d::recv_` was given: a place in a group. Which group it was
    is not recorded, so all must give the same rank.
    """
    name, found = trace.host.names[trace.host.name[op]], trace.arguments.of(op)
    if not name.startswith(("c10d::send", "c10d::recv_")) or found is None:
        return None
    place = whole(found.concrete[2]) if len(found.concrete) > 2 else None
    members = [each.ranks or range(each.size or 0) for each in groups]
    ranks = {each[place] for each in members if place is not None and 0 <= place < len(each)}
    return ranks.pop() if len(ranks) == 1 else None


def groups_of(trace: Trace) -> tuple[JobGroup, ...]:
    """The process groups that the header names."""
    info = trace.tables.header.get("distributedInfo")
    listed = info.get("pg_config") if isinstance(info, dict) else None
    found = []
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict):
            name, description = str(entry.get("pg_name", "")), str(entry.get("pg_desc") or "")
            ranks, size = entry.get("ranks"), entry.get("pg_size")
            members = ranks if isinstance(ranks, list) else []
            numbers = tuple(rank for rank in members if isinstance(rank, int))
            known = size if isinstance(size, int) else None
            found.append(JobGroup(name, description, known, numbers))
    return tuple(found)
