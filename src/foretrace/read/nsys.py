"""Nsight Systems' SQLite export, as the Chrome JSON that torch.profiler would have written.

Kernels, copies, fills, CUDA calls, waits and NVTX ranges come over to the nanosecond, so everything
behind the reader works as it does for a trace. What `torch.autograd.profiler.emit_nvtx` marks is
read as an op. A column that an older export does not have is left out. The file is only queried:
its own views, triggers and virtual tables are never used.
"""

from __future__ import annotations

import re
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import DecodeError
from msgspec.json import decode, encode

from foretrace.base import budget
from foretrace.base.errors import TraceError
from foretrace.base.patterns import regex
from foretrace.read.chrome_events import Event, listed
from foretrace.read.ledger import LedgerBuilder

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
