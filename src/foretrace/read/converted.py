"""Traces of other profilers, as the Chrome JSON that torch.profiler would have written.

Nsight Systems' SQLite export: kernels, copies, fills, CUDA calls, waits and NVTX ranges come over
to the nanosecond, so everything behind the reader works as it does for a trace. What
`torch.autograd.profiler.emit_nvtx` marks is read as an op. A column that an older export does not
have is left out. The file is only queried: its own views, triggers and virtual tables are never
used.

Perfetto's protobuf traces (`.pftrace`): torch 2.15 writes them with
`export_chrome_trace("x.pftrace")`: ranges are track events with the arguments of the JSON, GPU work
is track events or render stages. It writes no categories, so what a range is follows from its
arguments and its name; a file with categories keeps them. Field numbers are those of perfetto's
`trace_packet.proto` and the files that it imports.
"""

from __future__ import annotations

import re
import sqlite3
import struct
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from msgspec import DecodeError, Struct, field
from msgspec.json import decode, encode

from foretrace.base import budget
from foretrace.base.errors import TraceError, report
from foretrace.base.patterns import regex
from foretrace.read.ledger import LedgerBuilder

Event = dict[str, Any]
_AT_ONCE = 4096  # events in one block


def listed(events: Iterator[Event], label: str) -> Iterator[bytes]:
    """The inside of a JSON list, block by block, with progress and under the ceilings."""
    comma, done = b"", 0
    while block := list(islice(events, _AT_ONCE)):
        yield comma + encode(block)[1:-1]
        comma, done = b",", done + len(block)
        report(f"reading {done:,} events: {label}")
        budget.check()


_HINT = "write it with `nsys export --type sqlite REPORT.nsys-rep`"
_VERSION = regex(r"(?:_ptsz)?_v\d+(?:_ptsz)?$")  # of a CUDA call: cudaLaunchKernel_v7000
_RANGES = (59, 60)  # NvtxPushPopRange, NvtxStartEndRange
_COPIES = re.findall(r"\S+", "? HtoD DtoH HtoA AtoH AtoA AtoD DtoA DtoD HtoH PtoP HtoD DtoH DtoD")
_MEMORY = ("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static")
_WAITS = ("Unknown", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")

_TEXTS = {"value", "text", "name"}
_NEEDED = {"id", "value", "start", "end", "deviceId", "streamId", "globalTid"}
_NULL = type(None)

Row = dict[str, Any]


def from_nsys(raw: Iterable[bytes], label: str, ledger: LedgerBuilder) -> Iterator[bytes]:
    """Blocks of Chrome JSON from the blocks of a database; SQLite needs it as a file."""
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as file:
        for block in raw:
            file.write(block)
        file.flush()
        try:
            yield from _document(file.name, label, ledger)
        except sqlite3.Error as error:
            budget.check()  # a ceiling that was reached in a query ends it as an error of SQLite
            what = f"an SQLite database that cannot be read: {error}"
            raise TraceError("E_WRONG_FORMAT", label, what, hint=_HINT) from None


def _document(path: str, label: str, ledger: LedgerBuilder) -> Iterator[bytes]:
    export = _Export(path)
    if not export.columns.keys() & {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"}:
        what = "an SQLite database without CUDA activity of Nsight Systems"
        raise TraceError("E_WRONG_FORMAT", label, what, hint=_HINT)
    ledger.note("nsys_export")
    yield encode(export.header())[:-1] + b',"traceEvents":['
    yield from listed(export.events(), label)
    yield b"]}"
    if export.unusable:
        ledger.note("event_unparsable", export.unusable)


class _Export:
    """One database, opened to be read alone."""

    def __init__(self, path: str) -> None:
        self.base = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
        self.base.text_factory = lambda text: text.decode("utf-8", "replace")
        self.base.set_progress_handler(budget.check, 1_000_000)
        self.columns = self._columns()
        self.base.set_authorizer(_reads_alone)
        self.unusable = 0  # rows with text where a number belongs, or without a time or place
        self.processes: dict[int, int] = {}
        self.names: dict[int, str] = {
            row["id"]: row["value"] for row in self._rows("StringIds", "id value")
        }

    def _columns(self) -> dict[str, set[str]]:
        """The columns of each plain table: a view could compute anything."""
        made = self.base.execute("select name, sql from sqlite_master where type = 'table'")
        plain = [
            name for name, sql in made if re.match(r"CREATE TABLE [^\s(]+ ?\(", sql or "", re.ASCII)
        ]
        about = "select name from pragma_table_info(?)"
        return {name: {row[0] for row in self.base.execute(about, (name,))} for name in plain}

    def _rows(self, table: str, wanted: str, where: str = "") -> Iterator[Row]:
        has = [column for column in wanted.split() if column in self.columns.get(table, ())]
        if not has:
            return
        told = ", ".join(f'"{column}"' for column in has)
        kinds = [(str,) if column in _TEXTS else (int,) for column in has]
        kinds = [
            kind if column in _NEEDED else (*kind, _NULL)
            for column, kind in zip(has, kinds, strict=True)
        ]
        for row in self.base.execute(f'select {told} from "{table}" {where}'):
            if all(type(value) in kind for value, kind in zip(row, kinds, strict=True)):
                yield dict(zip(has, row, strict=True))
            else:
                self.unusable += 1

    def header(self) -> Event:
        """What a trace says of itself before its events."""
        start = next(self._rows("TARGET_INFO_SESSION_START_TIME", "utcEpochNs"), {})
        cards = self._rows(
            "TARGET_INFO_GPU", "id name smCount computeMajor computeMinor totalMemory"
        )
        keys = {"smCount": "numSms", "totalMemory": "totalGlobalMem"}
        about = {
            "schemaVersion": 1,
            "deviceProperties": [{keys.get(k, k): v for k, v in card.items()} for card in cards],
        }
        return (
            about | {"baseTimeNanoseconds": epoch} if (epoch := start.get("utcEpochNs")) else about
        )

    def events(self) -> Iterator[Event]:
        """Every record of the tables that torch.profiler has too."""
        yield from self._threads()
        yield from self._kernels()
        yield from self._copies()
        yield from self._waits()
        yield from self._calls()
        yield from self._ranges()

    def _threads(self) -> Iterator[Event]:
        for row in self._rows("ThreadNames", "nameId globalTid"):
            args = {"name": self._name(row, "nameId")}
            yield {"ph": "M", "name": "thread_name", **_thread(row["globalTid"]), "args": args}

    def _kernels(self) -> Iterator[Event]:
        wanted = "start end deviceId contextId streamId correlationId globalPid demangledName"
        wanted += " shortName registersPerThread gridX gridY gridZ blockX blockY blockZ"
        wanted += " staticSharedMemory dynamicSharedMemory graphId graphNodeId"
        for row in self._rows("CUPTI_ACTIVITY_KIND_KERNEL", wanted):
            shared = [row.get(f"{kind}SharedMemory") or 0 for kind in ("static", "dynamic")]
            args = {
                "registers per thread": row.get("registersPerThread"),
                "shared memory": sum(shared),
                "grid": [row.get(f"grid{axis}") for axis in "XYZ"],
                "block": [row.get(f"block{axis}") for axis in "XYZ"],
            }
            name = self._name(row, "demangledName") or self._name(row, "shortName")
            yield self._work(row, "kernel", name, args)

    def _copies(self) -> Iterator[Event]:
        wanted = "start end deviceId contextId streamId correlationId globalPid bytes graphNodeId"
        for row in self._rows("CUPTI_ACTIVITY_KIND_MEMCPY", f"{wanted} copyKind srcKind dstKind"):
            ends = " -> ".join(_one_of(_MEMORY, row.get(end)) for end in ("srcKind", "dstKind"))
            name = f"Memcpy {_one_of(_COPIES, row.get('copyKind'))} ({ends})"
            yield self._work(row, "gpu_memcpy", name, {"bytes": row.get("bytes")})
        for row in self._rows("CUPTI_ACTIVITY_KIND_MEMSET", f"{wanted} memKind"):
            name = f"Memset ({_one_of(_MEMORY, row.get('memKind'))})"
            yield self._work(row, "gpu_memset", name, {"bytes": row.get("bytes")})

    def _waits(self) -> Iterator[Event]:
        wanted = "start end deviceId contextId streamId correlationId globalPid syncType"
        for row in self._rows("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", wanted):
            yield self._work(row, "cuda_sync", _one_of(_WAITS, row.get("syncType")), {})

    def _work(self, row: Row, category: str, name: str, args: Event) -> Event:
        """An event of the GPU: a device is a process, a stream is a thread."""
        of = {"device": "deviceId", "context": "contextId", "stream": "streamId"}
        of |= {"graph id": "graphId", "graph node id": "graphNodeId"}
        args |= {key: row[column] for key, column in of.items() if row.get(column) is not None}
        args["correlation"] = self._correlation(row, row.get("globalPid") or 0)
        place = {"pid": row["deviceId"], "tid": row["streamId"]}
        return _complete(row, category, name, {**place, "args": args})

    def _calls(self) -> Iterator[Event]:
        wanted = "start end globalTid correlationId nameId"
        for row in self._rows("CUPTI_ACTIVITY_KIND_RUNTIME", wanted):
            name = _VERSION.sub("", self._name(row, "nameId"))
            category = "cuda_runtime" if name.startswith("cuda") else "cuda_driver"
            args = {"correlation": self._correlation(row, row["globalTid"])}
            yield _complete(row, category, name, {**_thread(row["globalTid"]), "args": args})

    def _ranges(self) -> Iterator[Event]:
        where = f"where eventType in {_RANGES} and end is not null"
        for row in self._rows("NVTX_EVENTS", "start end text textId globalTid", where):
            text = row.get("text") or self._name(row, "textId")
            category, name, args = _said(text)
            yield _complete(row, category, name, {**_thread(row["globalTid"]), "args": args})

    def _name(self, row: Row, column: str) -> str:
        return self.names.get(row.get(column, -1), "")

    def _correlation(self, row: Row, globally: int) -> int:
        """A number of the file: each process counts its calls from 1."""
        process = self.processes.setdefault(globally >> 24, len(self.processes))
        return (process << 32) + (row.get("correlationId") or 0)


def _reads_alone(action: int, *_about: Any) -> int:
    reads = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)
    return sqlite3.SQLITE_OK if action in reads else sqlite3.SQLITE_DENY


def _complete(row: Row, category: str, name: str, rest: Event) -> Event:
    times = {"ts": row["start"] / 1000, "dur": (row["end"] - row["start"]) / 1000}
    return {"ph": "X", "cat": category, "name": name, **times, **rest}


def _thread(globally: int) -> Event:
    return {"pid": (globally >> 24) & 0xFFFFFF, "tid": globally & 0xFFFFFF}


def _one_of(names: Sequence[str], number: int | None) -> str:
    return names[number] if number is not None and 0 <= number < len(names) else "Unknown"


def _said(text: str) -> tuple[str, str, Event]:
    """Category, name and arguments of a range; emit_nvtx writes `aten::mm, seq = 1, op_id = 2`."""
    name, op, about = text.partition(", op_id = ")
    if not op and ", seq = " not in name:
        return "user_annotation", text, {}
    sizes = about.partition("sizes = ")[2].partition(", input_op_ids")[0]
    try:
        args = {"Input Dims": decode(sizes)} if sizes else {}
    except DecodeError:
        args = {}
    return "cpu_op", name.partition(", seq = ")[0], args


_DEPTH = 16  # of arguments inside arguments
_NO_EVENTS_HINT = "write Chrome JSON: prof.export_chrome_trace('trace.json.gz')"
_ROOM_NS = 3_600_000_000_000  # an hour: later packets may be earlier than the first one
_BEGIN, _END = 1, 2  # kinds of track events
# fields of interned data: categories, names, names and texts of arguments, stages and queues, ...
_CATEGORY, _NAME, _KEY, _TEXT, _STAGE, _KERNEL, _ARGUMENT = 1, 2, 3, 29, 24, 1000, 1001
_STAGES = {"Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}
# ops whose names have no namespace; a node of the backward pass ends in Backward and a number
_OPS = regex(
    r"\w+Backward\d*$|triton_|detach_?$|\w+Function|Torch-Compiled|TorchDynamo|Pregraph"
    r"|AOTDispatcher|record_param_comms|Compiled"
)
_OPS_ARGS = {"Input Dims", "Sequence number", "Fwd thread id", "kernel_backend"}
_MARKS = ("ProfilerStep#", "Optimizer.", "## ", "nccl:", "gloo:")  # ranges, whatever they have

Fields = list[tuple[int, Any]]


class _Sequence(Struct):
    """What the packets of one writer share: texts by field and number, and its usual track."""

    texts: dict[tuple[int, int], str] = field(default_factory=dict)
    track: int = 0


class _Open(Struct):
    """A slice that has begun."""

    ts: int
    sequence: _Sequence
    fields: Fields


def from_pftrace(raw: Iterable[bytes], label: str, ledger: LedgerBuilder) -> Iterator[bytes]:
    """Blocks of Chrome JSON from the blocks of a trace."""
    ledger.note("perfetto_export")
    trace = _Trace(b"".join(raw), label, ledger)
    yield b'{"schemaVersion":1,"traceEvents":['
    yield from listed(trace.events(), label)
    yield b'],"baseTimeNanoseconds":%d}' % trace.base
    if not trace.base:
        what = "a Perfetto protobuf trace without events of torch.profiler"
        raise TraceError("E_WRONG_FORMAT", label, what, offset=0, hint=_NO_EVENTS_HINT)


class _Trace:
    """One pass over the packets."""

    def __init__(self, data: bytes, label: str, ledger: LedgerBuilder) -> None:
        self.data, self.label, self.ledger = data, label, ledger
        self.base = 0  # near the first time, so that the times of events are short
        self.sequences: defaultdict[int, _Sequence] = defaultdict(_Sequence)
        self.tracks: dict[int, Event] = {}
        self.begun: defaultdict[int, list[_Open]] = defaultdict(list)
        self.starts: list[tuple[int, _Open]] = []  # a run of starts, then a run of ends
        self.ends: list[tuple[int, int]] = []

    def events(self) -> Iterator[Event]:
        """Every slice and every operation of a GPU; what has no end is counted."""
        for number, packet in _fields(self.data, (0, len(self.data)), self._cut):
            if number == 1 and isinstance(packet, tuple):
                yield from self._packet(dict(self._inside(packet)))
        yield from self._paired()
        if left := sum(map(len, self.begun.values())):
            self.ledger.note("dur_missing", left)

    def _cut(self) -> None:
        self.ledger.note("trace_truncated")

    def _packet(self, packet: dict[int, Any]) -> Iterator[Event]:
        sequence = self.sequences[packet.get(10, 0)]
        if 12 in packet:
            self._intern(sequence, packet[12])
        if 59 in packet:
            usual = dict(self._inside(dict(self._inside(packet[59])).get(11, (0, 0))))
            sequence.track = usual.get(11, 0)
        if 60 in packet:
            yield from self._track(dict(self._inside(packet[60])))
        if 11 in packet:
            yield from self._track_event(packet.get(8, 0), sequence, self._inside(packet[11]))
        if 53 in packet:
            yield self._stage(packet.get(8, 0), sequence, self._inside(packet[53]))

    def _inside(self, bounds: tuple[int, int]) -> Fields:
        return list(_fields(self.data, bounds, self._cut))

    def _text(self, bounds: Any) -> str:
        start, end = bounds if isinstance(bounds, tuple) else (0, 0)
        return self.data[start:end].decode("utf-8", "replace")

    def _intern(self, sequence: _Sequence, bounds: tuple[int, int]) -> None:
        for number, entry in self._inside(bounds):
            if isinstance(entry, tuple):
                told = dict(self._inside(entry))
                text = told.get(3) if number == _KERNEL else told.get(2)
                sequence.texts[number, told.get(1, 0)] = self._text(text)

    def _track(self, track: dict[int, Any]) -> Iterator[Event]:
        process, thread = (dict(self._inside(track.get(number, (0, 0)))) for number in (3, 4))
        about = thread or process
        place = {"pid": about.get(1, 0), "tid": _signed(about.get(2, 0)) if thread else 0}
        name = self._text(thread.get(5) if thread else process.get(6, track.get(2)))
        parent = self.tracks.get(track.get(5, 0), {})
        gpu = f"{parent.get('name', '')} {name}".startswith("GPU")
        self.tracks[track.get(1, 0)] = {"place": place, "name": name, "gpu": gpu}
        kind = "thread_name" if thread else "process_name"
        yield {"ph": "M", "name": kind, **place, "args": {"name": name}}

    def _track_event(self, ts: int, sequence: _Sequence, fields: Fields) -> Iterator[Event]:
        told = dict(fields)
        uuid, kind = told.get(11, sequence.track), told.get(9)
        if kind == _BEGIN:
            if self.ends:
                yield from self._paired()
            self.starts.append((uuid, _Open(ts, sequence, fields)))
        elif kind == _END:
            self.ends.append((uuid, ts))

    def _paired(self) -> Iterator[Event]:
        """The slices of a run: torch writes all starts, then all ends, in the same order."""
        starts, ends, self.starts, self.ends = self.starts, self.ends, [], []
        times = [opened.ts for _, opened in starts] + [ts for _, ts in ends]
        if times != sorted(times) and [uuid for uuid, _ in starts] == [uuid for uuid, _ in ends]:
            for (uuid, opened), (_, end) in zip(starts, ends, strict=True):
                yield self._slice(opened, end, uuid)
            return
        for uuid, opened in starts:  # in the order of time: the last one ends first
            self.begun[uuid].append(opened)
        for uuid, end in ends:
            if self.begun[uuid]:
                yield self._slice(self.begun[uuid].pop(), end, uuid)

    def _slice(self, opened: _Open, end: int, uuid: int) -> Event:
        texts, told = opened.sequence.texts, dict(opened.fields)
        track = self.tracks.get(uuid, {"place": {"pid": 0, "tid": 0}, "gpu": False})
        name = self._text(told[23]) if 23 in told else texts.get((_NAME, told.get(10, 0)), "")
        args = dict(
            self._argument(value, opened.sequence, 0)
            for number, value in opened.fields
            if number == 4
        )
        category = (
            self._text(told[22]) if 22 in told else texts.get((_CATEGORY, told.get(3, 0)), "")
        )
        category = category or _category(name, args, track["gpu"])
        return self._complete(opened.ts, end - opened.ts, category, name, track["place"], args)

    def _complete(
        self, ts: int, length: int, category: str, name: str, place: Event, args: Event
    ) -> Event:
        self.base = self.base or max(ts - _ROOM_NS, 1)
        times = {"ts": (ts - self.base) / 1000, "dur": length / 1000}
        return {"ph": "X", "cat": category, "name": name, **times, **place, "args": args}

    def _argument(self, bounds: Any, sequence: _Sequence, depth: int) -> tuple[str, Any]:
        """Name and value of an argument; one that is a list or an object holds others."""
        fields = self._inside(bounds) if depth < _DEPTH else []
        told = dict(fields)
        key = self._text(told[10]) if 10 in told else sequence.texts.get((_KEY, told.get(1, 0)), "")
        inner = [
            (number, self._argument(value, sequence, depth + 1))
            for number, value in fields
            if number in (11, 12)
        ]
        if any(number == 11 for number, _ in inner):
            return key, dict(pair for _, pair in inner)
        if inner:
            return key, [value for _, (_, value) in inner]
        return key, self._value(told, sequence)

    def _value(self, told: dict[int, Any], sequence: _Sequence) -> Any:
        if 6 in told:
            return self._text(told[6])
        if 17 in told:
            return sequence.texts.get((_TEXT, told[17]), "")
        if 5 in told:
            return struct.unpack("<d", struct.pack("<Q", told[5]))[0]
        if 4 in told:
            return _signed(told[4])
        if 2 in told:
            return bool(told[2])
        return told.get(3, told.get(7, []))  # an empty list has nothing that says it is one

    def _stage(self, ts: int, sequence: _Sequence, fields: Fields) -> Event:
        """An operation of a GPU: its arguments are pairs of text, its launch is a message."""
        told, texts = dict(fields), sequence.texts
        pairs = [dict(self._inside(value)) for number, value in fields if number == 6]
        about = {self._text(pair.get(1)): self._text(pair.get(2)) for pair in pairs}
        numbers = {key: int(text) for key, text in about.items() if text.lstrip("-").isdecimal()}
        stage = texts.get((_STAGE, told.get(14, 0)), "")
        name = self._text(told[17]) if 17 in told else texts.get((_NAME, told.get(20, 0)), stage)
        args = {**numbers, **self._launch(told.get(21, (0, 0)), texts)}
        args |= {
            key: numbers[f"{key} id"]
            for key in ("device", "context", "stream")
            if f"{key} id" in numbers
        }
        place = {"pid": told.get(11, 0), "tid": args.get("stream", told.get(13, 0))}
        category = _STAGES.get(stage, "gpu_user_annotation")
        return self._complete(ts, told.get(2, 0), category, name, place, args)

    def _launch(self, bounds: tuple[int, int], texts: dict[tuple[int, int], str]) -> Event:
        fields = self._inside(bounds)
        sides = {1: "grid", 2: "block"}
        found: Event = {
            sides[number]: [dict(self._inside(value)).get(axis, 1) for axis in (1, 2, 3)]
            for number, value in fields
            if number in sides
        }
        given = {
            "registers_per_thread": "registers per thread",
            "shared_mem_dynamic": "shared memory",
        }
        for argument in (dict(self._inside(value)) for number, value in fields if number == 3):
            key = texts.get((_ARGUMENT, argument.get(1, 0)), "")
            found[given.get(key, key)] = argument.get(4, argument.get(3))
        return found


def _category(name: str, args: Event, on_gpu: bool) -> str:
    """What a slice without a category is."""
    if "cuda_sync_kind" in args:
        return "cuda_sync"
    if on_gpu:
        kind = next((kind for start, kind in _STAGES.items() if name.startswith(start)), "")
        return kind or ("kernel" if "grid" in args else "gpu_user_annotation")
    if "cbid" in args or "correlation" in args:
        return "cuda_runtime" if name.startswith(("cuda", "hip")) else "cuda_driver"
    if "Python id" in args:
        return "python_function"
    if "Ev Idx" not in args and "External id" not in args:
        return "overhead"
    op = "::" in name or _OPS.match(name) or _OPS_ARGS & args.keys()
    return "cpu_op" if op and not name.startswith(_MARKS) else "user_annotation"


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


def _fields(
    data: bytes, bounds: tuple[int, int], cut: Callable[[], None]
) -> Iterator[tuple[int, Any]]:
    """Field numbers with a number, or the bounds of bytes inside `data`."""
    at, end = bounds
    while at < end:
        try:
            tag, at = _varint(data, at)
            kind = tag & 7
            if kind == 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
                continue
            size, at = _varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
        except (IndexError, KeyError):
            cut()
            return
        if at + size > end:
            cut()
            return
        yield (
            tag >> 3,
            (at, at + size) if kind == 2 else int.from_bytes(data[at : at + size], "little"),
        )
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = data[at]
    if value < 128:
        return value, at + 1
    value, shift = value & 127, 7
    while (byte := data[at := at + 1]) >= 128:
        value |= (byte & 127) << shift
        shift += 7
        if shift > 63:
            raise IndexError
    return value | byte << shift, at + 1
