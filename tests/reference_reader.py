"""A slow reader that can be checked by reading it: the standard library and plain loops, nothing of
the package.

It knows well-formed JSON only. What it says about a trace, the fast reader has to say too, to the
nanosecond:

    kernels          events of category kernel; memcpys and memsets are their own kinds
    launches         runtime or driver calls that put a kernel or a graph on the GPU
    syncs            host calls that wait for the GPU
    busy             union of kernels, memcpys and memsets per device, summed over devices
    span             first start to last end of that work per device, summed; idle of a step: no work,
                     its own or another's, from the first to the last of its own
    launch of work   the runtime or driver call with the same correlation (never 0), of the same
                     rank
    step of work     the ProfilerStep range of the same rank that holds the start of the launch,
                     whatever its thread;
                     where steps overlap, the one that began last
    region           every other record_function range; its work is found the same way
    parent           the nearest range on the same thread that contains the event; for a call, the
                     one it starts in
    self time        a range's length less what its direct children cover
    op of a kernel   the innermost cpu_op that the launch is in; without a correlation, the one op
                     with its External id

An event with half a time has none: it counts, it has no start, and it enters no sum. A step without
a time is no step.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

KINDS = {
    "cpu_op": "op",
    "operator": "op",
    "user_annotation": "annotation",
    "user": "annotation",
    "python_function": "python",
    "cuda_runtime": "call",
    "runtime": "call",
    "cuda_driver": "call",
    "xpu_runtime": "call",
    "xpu_driver": "call",
    "mtia_runtime": "call",
    "glow_runtime": "call",
    "privateuse1_runtime": "call",
    "privateuse1_driver": "call",
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "trace": "span",
    "gpu_user_annotation": "gpu_annotation",
    "cpu_instant_event": "instant",
    "cuda_sync": "gpu_sync",
    "xpu_sync": "gpu_sync",
    "cuda_event": "gpu_sync",
}
GPU_WORK = ("kernel", "memcpy", "memset")
HOST_RANGES = ("annotation", "python", "op", "call", "other")
MERGED_PID = re.compile(r"(\[[^\]]*\])\s*(-?\d+)\s*$")
STEP = re.compile(r"ProfilerStep#(\d+)$")
LAUNCH = re.compile(
    r"(cuda|cu|hip)(Ext|Module|ExtModule|HccModule|Drv)?Launch(Cooperative)?Kernel\w*$"
    r"|(cuda|cu|hip)GraphLaunch\w*$"
    r"|(ur|pi)EnqueueKernelLaunch\w*$|(ur|pi)EnqueueCooperativeKernelLaunch\w*$|zeCommandListAppendLaunch\w*Kernel\w*$"
)
SYNC = re.compile(
    r"(cuda|hip)(Device|Stream|Event|Thread)Synchronize\w*$|cu(Ctx|Stream|Event)Synchronize\w*$"
    r"|(cuda|hip)Memcpy$|hipMemcpyWithStream$"
    r"|(ur|pi)(QueueFinish|EventWait)$|zeCommandQueueSynchronize$|zeEventHostSynchronize$"
)
INT64 = 2**63
MOST_US = 9 * 10**15
TIME = re.compile(r"\s*-?[0-9]{1,40}(\.[0-9]{0,40})?([eE][+-]?[0-9]{1,4})?\s*")


class NotATrace(Exception):
    """The document holds no list of events."""


@dataclass
class Event:
    """One record of the file. Times are absolute nanoseconds, None where the file gives no usable
    one.
    """

    index: int
    ph: str
    kind: str
    name: str
    rank: str
    pid: Any
    tid: Any
    ts: int | None
    dur: int | None
    args: dict[str, Any]
    parent: Event | None = None
    children: list[Event] = field(default_factory=list)
    launch: Event | None = None
    step: Event | None = None
    op: Event | None = None

    @property
    def end(self) -> int:
        assert self.timed
        return self.ts + self.dur

    @property
    def timed(self) -> bool:
        return self.ts is not None and self.dur is not None

    @property
    def device(self) -> tuple[str, Any]:
        return self.rank, self.args.get("device", self.pid)

    @property
    def delay(self) -> int | None:
        if (
            not self.timed
            or self.launch is None
            or self.launch.ts is None
            or self.ts < self.launch.ts
        ):
            return None
        return self.ts - self.launch.ts


@dataclass
class Reading:
    """Everything this reader has to say about one trace."""

    seen: int
    skipped: int
    totals: dict[str, Any]
    steps: list[dict[str, Any]]
    regions: dict[str, dict[str, Any]]
    kernels: dict[str, dict[str, Any]]
    ops: dict[str, dict[str, Any]]
    links: list[tuple[Any, ...]]


def read(data: bytes) -> Reading:
    """Read a plain or gzipped trace."""
    header, records = parse(data)
    base = header.get("baseTimeNanoseconds")
    base = base if isinstance(base, int) and not isinstance(base, bool) else None
    written = enumerate(categorised(records))
    events = [event for i, record in written if (event := decode(i, record, base))]
    events = pair_begin_end(events)
    link_parents(events)
    link_work(events)
    link_steps(events)
    return summarize(
        events, seen=len(records), skipped=sum(not is_event(record) for record in records)
    )


def ranges(data: bytes) -> dict[str, int]:
    """How long the ranges of each kind are together, in nanoseconds."""
    header, records = parse(data)
    base = header.get("baseTimeNanoseconds")
    base = base if isinstance(base, int) and not isinstance(base, bool) else None
    written = enumerate(categorised(records))
    events = [event for i, record in written if (event := decode(i, record, base))]
    sums = dict.fromkeys([*KINDS.values(), "other"], 0)
    for event in pair_begin_end(events):
        sums[event.kind] += event.dur if event.timed else 0
    return sums


# ---- decoding
# -------------------------------------------------------------------------------------------------------


def parse(data: bytes) -> tuple[dict[str, Any], list[Any]]:
    while data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    document = json.loads(
        data.decode("utf-8-sig"),
        parse_float=Decimal,
        parse_constant=lambda _: None,
        strict=False,
        object_pairs_hook=last_wins,
    )
    if isinstance(document, list):
        if not any(isinstance(record, dict) for record in document):
            raise NotATrace("a list without events")
        return {}, document
    if not isinstance(document, dict) or not isinstance(document.get("traceEvents"), list):
        raise NotATrace("no traceEvents list")
    return document, document["traceEvents"]


def last_wins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A key written twice: the last one counts, but an empty `traceEvents` never hides a full one."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key == "traceEvents" and found.get(key) and not value:
            continue
        found[key] = value
    return found


def is_event(record: Any) -> bool:
    return isinstance(record, dict) and bool(record)


def categorised(records: list[Any]) -> list[Any]:
    """A range without a category is an op, unless its process is called a GPU."""
    labels = [
        (str(record.get("pid")), list((record.get("args") or {}).values()))
        for record in records
        if is_event(record) and isinstance(record.get("args"), dict) and record.get("ph") == "M"
    ]
    gpus = {pid for pid, said in labels if any(str(text).startswith("GPU") for text in said)}
    return [
        {**record, "cat": "gpu_user_annotation"}
        if is_event(record) and record.get("cat") is None and str(record.get("pid")) in gpus
        else record
        for record in records
    ]


def decode(index: int, record: Any, base: int | None) -> Event | None:
    if not is_event(record):
        return None
    ph = record.get("ph")
    ph = ph if isinstance(ph, str) else ""
    kind = kind_of(record.get("cat"))
    rank, pid = split_pid(record.get("pid"))
    args = record.get("args") if isinstance(record.get("args"), dict) else {}
    ts, dur = nanoseconds(record.get("ts")), nanoseconds(record.get("dur"))
    if kind in GPU_WORK and ts is not None and (ts == 0 or ts == base):
        ts = None  # the producer had no time for it
    elif base is not None and ts is not None and ts <= 0:
        ts = None  # clamped by the producer: it happened at some time before
    if dur is not None and dur < 0:
        dur = None
    ts = None if ts is None else (base or 0) + ts
    return Event(
        index, ph, kind, name_of(record), rank, pid, plain_tid(record.get("tid")), ts, dur, args
    )


def kind_of(cat: Any) -> str:
    if cat is None:
        return "op"
    return KINDS.get(str(cat).lower(), "other")


def name_of(record: dict[str, Any]) -> str:
    name = record.get("name")
    if name is None:
        return "(no name)"
    return str(name) if name != "" else "(empty)"


def nanoseconds(value: Any) -> int | None:
    """From the decimals as they are written: a double steps by 250 ns at the times of this century."""
    exact = microseconds(value)
    return None if exact is None else round(exact * 1000)


def split_pid(pid: Any) -> tuple[str, Any]:
    """`"[TP00-DP01] 83"`, as the mergers write it, is process 83 of that rank."""
    merged = MERGED_PID.match(pid) if isinstance(pid, str) else None
    return (merged[1], int(merged[2])) if merged else ("", pid)


def plain_tid(tid: Any) -> Any:
    """torch 1.8 writes thread ids as text, and streams as `stream 7`."""
    digits = re.fullmatch(r"(?:stream )?(-?\d+)", tid.strip()) if isinstance(tid, str) else None
    return int(digits[1]) if digits else tid


def pair_begin_end(events: list[Event]) -> list[Event]:
    """Turn `B` and `E` records into one range; ranges with `ph: X` pass through, all else is not a
    range.
    """
    open_ranges: dict[tuple[Any, ...], list[Event]] = {}
    ranges = []
    for event in events:
        thread = (event.rank, event.pid, event.tid)
        if event.ph == "X":
            ranges.append(event)
        elif event.ph == "B":
            event.dur = None
            open_ranges.setdefault(thread, []).append(event)
            ranges.append(event)
        elif event.ph == "E" and open_ranges.get(thread):
            begun = open_ranges[thread].pop()
            begun.dur = (
                event.ts - begun.ts if event.ts is not None and begun.ts is not None else None
            )
    return ranges


class Anything:
    """Equal to all: a value of a type that its field does not have may be shown in many ways."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = object.__hash__


def as_written(data: bytes) -> tuple[int, list[tuple[Any, ...]]]:
    """The number of records, and of each event its phase, category, pid, tid, name, start and length
    in microseconds, correlation (of an arrow: its id) and External id, before any is judged.
    """
    records = parse(data)[1]
    return len(records), [fields_of(record) for record in records if is_event(record)]


def fields_of(record: dict[str, Any]) -> tuple[Any, ...]:
    ph, cat, args = text_of(record.get("ph")), text_of(record.get("cat")), record.get("args")
    args = args if isinstance(args, dict) else {}
    external = (whole(args.get(key)) for key in ("External id", "external id", "External Id"))
    key = whole(args.get("correlation"))
    if record.get("ph") in ("s", "t", "f") and record.get("cat") != "memory":
        key = None if isinstance(record.get("id"), str) else whole(record.get("id"))
    if record.get("name") == "[memory]":
        ph = cat = key = Anything()
    times = microseconds(record.get("ts")), microseconds(record.get("dur"))
    pid, tid = word_of(record.get("pid")), word_of(record.get("tid"))
    name = record.get("name")
    shown = name if name is None else text_of(name)
    return ph, cat, pid, tid, shown, *times, key, next((x for x in external if x is not None), None)


def text_of(value: Any) -> Any:
    return value if isinstance(value, str) else "" if value is None else Anything()


def word_of(value: Any) -> Any:
    """A pid or a tid: a number or text."""
    number = isinstance(value, int) and not isinstance(value, bool) and -INT64 <= value < INT64
    return value if number or value is None or isinstance(value, str) else Anything()


def whole(value: Any) -> int | None:
    """An id, also where it is written with decimals or as text in plain digits."""
    if isinstance(value, str):
        value = int(value) if re.fullmatch("-?[0-9]{1,19}", value) else None
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    return int(value) if value == int(value) and -INT64 <= value < INT64 else None


def microseconds(value: Any) -> Decimal | None:
    """None where there is no time, or none that 64 bits of nanoseconds hold."""
    if isinstance(value, str) and not TIME.fullmatch(value):
        return None
    if isinstance(value, bool) or not isinstance(value, (int, str, Decimal)):
        return None
    exact = Decimal(value)
    return exact if abs(exact) < MOST_US else None


# ---- links
# ----------------------------------------------------------------------------------------------------------


def link_parents(events: list[Event]) -> None:
    threads: dict[tuple[Any, ...], list[Event]] = {}
    for event in events:
        if event.kind in HOST_RANGES and event.timed:
            threads.setdefault((event.rank, str(event.pid), str(event.tid)), []).append(event)
    for ranges in threads.values():
        ranges.sort(key=order)
        around: list[Event] = []
        for event in ranges:
            while around and not starts_in(event, around[-1]):
                around.pop()
            event.parent = next(
                (outer for outer in reversed(around) if contains(outer, event)), None
            )
            if event.parent:
                event.parent.children.append(event)
            around.append(event)


def starts_in(event: Event, outer: Event) -> bool:
    """An empty range holds its own start and nothing else; any other ends just before its end."""
    return event.ts == outer.ts or event.ts < outer.end


def contains(outer: Event, event: Event) -> bool:
    """Clock drift can let a call end after the op that made it: a call is held by the op or frame
    it starts in.
    """
    drifted = event.kind == "call" and outer.kind != "call"
    return starts_in(event, outer) and (drifted or event.end <= outer.end)


def order(event: Event) -> tuple[Any, ...]:
    """Outer before inner.

    Of ranges that are equal to the nanosecond, annotations hold Python frames hold ops hold calls,
    then the one that was begun first holds the other (its index is lower).
    """
    ident = event.args.get("Ev Idx", event.args.get("External id"))
    ident = ident if isinstance(ident, int) else INT64
    return event.ts, -event.dur, HOST_RANGES.index(event.kind), ident, event.index


def correlation_of(event: Event) -> int | None:
    value = event.args.get("correlation")
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value != 0 else None


def external_of(event: Event) -> Any:
    return next((value for key, value in event.args.items() if key.lower() == "external id"), None)


def link_work(events: list[Event]) -> None:
    calls = grouped(events, "call", correlation_of)
    launches = grouped([event for event in events if LAUNCH.match(event.name)], "call", external_of)
    ops = grouped(events, "op", external_of)
    for event in events:
        if event.kind not in GPU_WORK:
            continue
        correlation, external = correlation_of(event), (event.rank, external_of(event))
        if correlation is not None:
            event.launch = nearest(event, calls.get((event.rank, correlation), []))
            event.op = enclosing_op(event.launch)
        elif "correlation" not in event.args and event.kind == "kernel":
            event.launch = only(launches.get(external, []))
            event.op = enclosing_op(event.launch) or only(ops.get(external, []))


def grouped(
    events: list[Event], kind: str, key: Callable[[Event], Any]
) -> dict[tuple[str, Any], list[Event]]:
    groups: dict[tuple[str, Any], list[Event]] = {}
    for event in events:
        if event.kind == kind and key(event) is not None:
            groups.setdefault((event.rank, key(event)), []).append(event)
    return groups


def only(events: list[Event]) -> Event | None:
    return events[0] if len(events) == 1 else None


def nearest(work: Event, calls: list[Event]) -> Event | None:
    """The call that started last before the work did; the first call where none did."""
    timed = [call for call in calls if call.ts is not None]
    before = [call for call in timed if work.ts is not None and call.ts <= work.ts]
    if before:
        return max(before, key=lambda call: call.ts)
    return min(timed, key=lambda call: call.ts) if timed else (calls[0] if calls else None)


def enclosing_op(event: Event | None) -> Event | None:
    while event is not None and (event.kind != "op" or STEP.match(event.name)):
        event = event.parent
    return event


def is_step(event: Event) -> bool:
    return event.kind in ("annotation", "op") and STEP.match(event.name) is not None


def link_steps(events: list[Event]) -> None:
    steps = [event for event in events if is_step(event) and event.timed]
    for event in events:
        if event.kind in GPU_WORK and event.launch is not None:
            around = [step for step in steps if holds(step, event.launch)]
            event.step = max(around, key=lambda step: (step.ts, step.index), default=None)


def holds(outer: Event, call: Event) -> bool:
    """Whether a call starts inside a range, on any thread: backward passes launch from threads of
    their own.
    """
    return (
        outer.rank == call.rank
        and outer.timed
        and call.ts is not None
        and outer.ts <= call.ts < outer.end
    )


# ---- sums
# -----------------------------------------------------------------------------------------------------------


def covered(intervals: list[tuple[int, int]]) -> int:
    """The length of the union."""
    total, reached = 0, None
    for start, end in sorted(intervals):
        if reached is None or start > reached:
            total, reached = total + end - start, end
        elif end > reached:
            total, reached = total + end - reached, end
    return total


def busy_and_span(work: list[Event]) -> tuple[int | None, int | None]:
    """Both unknown where there is work and none of it has a time; both 0 where there is no work at
    all.
    """
    devices: dict[Any, list[tuple[int, int]]] = {}
    for event in work:
        if event.timed:
            devices.setdefault(event.device, []).append((event.ts, event.end))
    if work and not devices:
        return None, None
    busy = sum(covered(intervals) for intervals in devices.values())
    span = sum(
        max(end for _, end in each) - min(start for start, _ in each) for each in devices.values()
    )
    return busy, span


def counts(work: list[Event]) -> dict[str, int]:
    return {f"{kind}s": sum(event.kind == kind for event in work) for kind in GPU_WORK}


def self_time(event: Event) -> int:
    return event.dur - covered([(child.ts, min(child.end, event.end)) for child in event.children])


def summarize(events: list[Event], seen: int, skipped: int) -> Reading:
    work = [event for event in events if event.kind in GPU_WORK]
    calls = [event for event in events if event.kind == "call"]
    ops = [event for event in events if event.kind == "op" and not is_step(event)]
    busy, span = busy_and_span(work)
    totals = counts(work) | {
        "launches": sum(LAUNCH.match(call.name) is not None for call in calls),
        "syncs": sum(SYNC.match(call.name) is not None for call in calls),
        "gpu_busy_ns": busy,
        "gpu_span_ns": span,
        "cpu_ops": len(ops),
    }
    kernels = [event for event in work if event.kind == "kernel"]
    return Reading(
        seen,
        skipped,
        totals,
        step_rows(events, work),
        region_rows(events, work),
        kernel_rows(kernels),
        op_rows(ops),
        sorted(map(link_row, kernels), key=repr),
    )


def idle_within(mine: list[Event], work: list[Event]) -> int:
    """Per device, from the first to the last of these: the time in which no work ran."""
    idle = 0
    for device in {event.device for event in mine if event.timed}:
        own = [event for event in mine if event.timed and event.device == device]
        first, last = min(event.ts for event in own), max(event.end for event in own)
        others = [event for event in work if event.timed and event.device == device]
        inside = [(max(event.ts, first), min(event.end, last)) for event in others]
        idle += last - first - covered([(start, end) for start, end in inside if start < end])
    return idle


def step_rows(events: list[Event], work: list[Event]) -> list[dict[str, Any]]:
    rows = []
    steps = [event for event in events if is_step(event) and event.timed]
    for step in sorted(steps, key=lambda event: (event.ts, event.name, event.rank)):
        mine = [event for event in work if event.step is step]
        busy, _ = busy_and_span(mine)
        idle = None if busy is None else idle_within(mine, work)
        rows.append(
            {"name": step.name, "index": int(STEP.match(step.name)[1]), "cpu_ns": step.dur}
            | counts(mine)
            | {"gpu_busy_ns": busy, "gpu_idle_ns": idle}
        )
    return rows


def region_rows(events: list[Event], work: list[Event]) -> dict[str, dict[str, Any]]:
    calls: dict[str, list[Event]] = {}
    for event in events:
        if event.kind == "annotation" and not is_step(event) and not within_own_name(event):
            calls.setdefault(event.name, []).append(event)
    return {name: region_row(ranges, work) for name, ranges in calls.items()}


def within_own_name(event: Event) -> bool:
    """A call inside a call of the same name is a part of that call."""
    above = event.parent
    while above is not None and (above.kind, above.name) != (event.kind, event.name):
        above = above.parent
    return above is not None


def region_row(ranges: list[Event], work: list[Event]) -> dict[str, Any]:
    """On two threads calls of one name may run at once: a kernel then belongs to each of them, but
    the GPU was busy with it once.
    """
    times = [
        (event, sum(holds(each, event.launch) for each in ranges)) for event in work if event.launch
    ]
    kernels = sum(count for event, count in times if event.kind == "kernel")
    return {
        "count": len(ranges),
        "cpu_ns": sum(each.dur or 0 for each in ranges),
        "kernels_per_call": round(kernels / len(ranges), 3),
        "gpu_busy_ns": busy_and_span([event for event, count in times if count])[0],
    }


def kernel_rows(kernels: list[Event]) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for event in kernels:
        row = rows.setdefault(event.name, {"count": 0, "total_ns": 0})
        row["count"] += 1
        row["total_ns"] += event.dur if event.timed else 0
    return rows


def op_rows(ops: list[Event]) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for event in ops:
        row = rows.setdefault(event.name, {"count": 0, "self_cpu_ns": 0, "total_cpu_ns": 0})
        row["count"] += 1
        row["self_cpu_ns"] += self_time(event) if event.timed else 0
        inside = event.parent is not None and event.parent.name == event.name
        row["total_cpu_ns"] += event.dur if event.timed and not inside else 0
    return rows


def link_row(event: Event) -> tuple[Any, ...]:
    return (
        event.name,
        event.ts if event.timed else None,
        event.dur if event.timed else None,
        event.launch and event.launch.name,
        event.delay,
        event.op and event.op.name,
        event.step and int(STEP.match(event.step.name)[1]),
    )
