"""A trace written out again as the JSON that profilers and Perfetto read.

Nothing is copied from the file. Every record is made from the tables, field by field, so a field
that is not named here is left out. A text field holds words of its own vocabulary only.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from foretrace.base import files
from foretrace.base.patterns import regex
from foretrace.base.private import cleaned, words
from foretrace.pages.export.allowed import COLLECTIVES, DTYPES, SYNCS, TYPES, AllowList, Everything
from foretrace.read.ledger import DAMAGE, UNCOPIED
from foretrace.trace.arguments import Signature
from foretrace.trace.trace import Trace

Record = dict[str, Any]
Place = tuple[int | str, int]  # pid and tid


def _fields(text: str) -> list[tuple[str, str, str]]:
    """(side table, column, key of `args`) from lines `table: column = key, column = key`."""
    lines = (line.partition(":") for line in text.strip().splitlines())
    pairs = (
        (table.strip(), each.partition("=")) for table, _, rest in lines for each in rest.split(",")
    )
    return [(table, column.strip(), key.strip()) for table, (column, _, key) in pairs]


_ITEM = r"(?:-?\d{1,6}(?:\.\d{0,4})?(?:e[+-]?\d{1,3})?|True|False|None|)"
_COUNT = regex(r"\d{1,15}", re.ASCII)
_PLAIN = regex(rf"{_ITEM}|[\[(]{_ITEM}(?:, ?{_ITEM}){{0,15}}[\])]")
NUMBERS = _fields("""
    gpu: device = device, stream = stream, bytes = bytes, occupancy = est. achieved occupancy %
    gpu: registers = registers per thread, shared_memory = shared memory
    gpu: blocks_per_sm = blocks per SM, warps_per_sm = warps per SM
    gpu: graph_id = graph id, graph_node = graph node id
    autograd: sequence = Sequence number, forward_thread = Fwd thread id
    comms: in_elements = In msg nelems, out_elements = Out msg nelems, group_size = Group size
    comms: seq = Seq
    syncs: stream = stream, wait_stream = wait_on_stream
    syncs: wait_record = wait_on_cuda_event_record_corr_id
    memory: device_type = Device Type, device_id = Device Id, bytes = Bytes
    memory: total_allocated = Total Allocated, total_reserved = Total Reserved
""")
# Texts of which each has a list.
LISTED = (
    (COLLECTIVES, _fields("comms: collective = Collective name")),
    (DTYPES, _fields("comms: dtype = dtype")),
    (SYNCS, _fields("syncs: sync_kind = cuda_sync_kind")),
    (words("triton cuda hip cpu xpu"), _fields("triton: backend = kernel_backend")),
    (
        frozenset(map(str, range(33))),
        _fields("triton: num_warps = num_warps, num_stages = num_stages"),
    ),
)
INPUTS = _fields("triton: kwargs = kernel_kwargs")
STACKS = _fields("stacks: call_stack = Call stack, module_path = Module Hierarchy")
HEADER = words("""
    schemaVersion record_shapes profile_memory with_flops cuda_runtime_version
    cuda_driver_version hip_runtime_version cupti_version DISABLE_CUPTI_LAZY_REINIT
""")
CARD = words("""
    id totalGlobalMem computeMajor computeMinor maxThreadsPerBlock maxThreadsPerMultiprocessor
    regsPerBlock warpSize sharedMemPerBlock numSms regsPerMultiprocessor sharedMemPerBlockOptin
    sharedMemPerMultiprocessor
""")
KINDS = words("""
    cpu_op user_annotation gpu_user_annotation kernel gpu_memcpy gpu_memset cuda_runtime
    cuda_driver overhead cuda_sync cuda_event
""")
_LARGEST = 10**15  # no number of a trace is as long as the number of a card or an account
_PIDS = 1 << 22  # Linux numbers no process and no thread higher, nor CUDA a stream
_RANKED = regex(r"\[([^\]]+)\]\s*(.*)", re.DOTALL)  # the pid of a merged file
_FLOWS = 1 << 40  # ids of launch arrows, apart from every other id


def write(
    trace: Trace, path: Path, allowed: AllowList | None, extra: Iterable[Record] = ()
) -> None:
    """Write the trace as `.json.gz`; `extra` records follow its own. Without a list every name and
    argument stays: for a copy that its owner keeps.
    """
    allowed = allowed or Everything()
    header = _header(trace, allowed)
    write_records(path, header, chain(_records(trace, allowed), extra))


def write_records(path: Path, header: Record, records: Iterable[Record]) -> None:
    """Write a trace as `.json.gz`, record by record."""
    with (
        files.replacing(path) as draft,
        draft.open("wb") as raw,
        gzip.GzipFile("", "wb", 6, raw, mtime=0) as file,
    ):
        file.write(msgspec.json.encode(header)[:-1] + b',"traceEvents":[\n')
        for count, record in enumerate(records):
            file.write((b",\n" if count else b"") + msgspec.json.encode(record))
        file.write(b"\n]}\n")


def _header(trace: Trace, allowed: AllowList) -> Record:
    found = trace.tables.header
    cards = found.get("deviceProperties")
    header: Record = _integers(found, HEADER)
    header["deviceProperties"] = [
        {"name": allowed.card(str(card.get("name", "")))} | _integers(card, CARD)
        for card in (cards if isinstance(cards, list) else [])
        if isinstance(card, dict)
    ]
    if trace.about.rank is not None:
        header["distributedInfo"] = {"rank": trace.about.rank, "world_size": trace.about.world_size}
    if "stacks" in allowed.keep:
        header["with_stack"] = 1
    if trace.tables.base_ns is not None:
        header["baseTimeNanoseconds"] = trace.tables.base_ns
    if missing := [note.code for note in trace.ledger.notes if note.code in UNCOPIED]:
        header[DAMAGE] = missing
    return header


def _integers(values: dict[str, Any], allowed: frozenset[str]) -> Record:
    numbers = {name: value for name, value in values.items() if isinstance(value, int)}
    return {
        name: value for name, value in numbers.items() if name in allowed and abs(value) < 1 << 63
    }


def _records(trace: Trace, allowed: AllowList) -> Iterator[Record]:
    """Tracks, then every event that may be shared, then an arrow from each launch."""
    places, base = _places(trace), trace.tables.base_ns or 0
    yield from _tracks(trace, places, allowed)
    arguments = _arguments(trace, allowed)
    kinds = KINDS | {"python_function"} if "stacks" in allowed.keep else KINDS
    columns = ("id", "ts_ns", "dur_ns", "kind", "name", "track", "correlation", "external_id")
    rows = trace.events.select(*columns).iter_rows()
    for event, ts, dur, kind, name, track, correlation, external in rows:
        if kind in kinds and ts is not None and dur is not None:
            ids = {"correlation": correlation, "External id": external}
            known = {key: value for key, value in ids.items() if value is not None}
            args = arguments.get(event, {}) | known
            pid, tid = places[track]
            shown = allowed.kept(name) if kind == "python_function" else allowed.name(name)
            yield complete(kind, shown, pid, tid, ts - base, dur, args)
    yield from _arrows(trace, places, base)


def complete(
    category: str, name: str, pid: int | str, tid: int, ts_ns: int, dur_ns: int, args: Record
) -> Record:
    """One record that lasts."""
    times = {"ts": _us(ts_ns), "dur": _us(dur_ns), "args": args}
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid} | times


def arrow(phase: str, number: int, name: str, pid: int | str, tid: int, ts_ns: int) -> Record:
    """One end of an arrow: `s` where it starts, `f` where it ends; each on the slice there."""
    ends = {"bp": "e"} if phase == "f" else {}
    place = {"pid": pid, "tid": tid, "ts": _us(ts_ns)}
    return {"ph": phase, "id": number, "cat": name, "name": name} | place | ends


def _us(ns: int) -> Raw:
    """Microseconds as text: a float has no room for the nanoseconds of absolute times."""
    whole, rest = divmod(abs(ns), 1000)
    return Raw(f"{'-' if ns < 0 else ''}{whole}.{rest:03}".encode())


def metadata(kind: str, pid: int | str, tid: int, **args: str | int) -> Record:
    """One record about a process or a thread."""
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}


def _places(trace: Trace) -> list[Place]:
    """A numeric pid and tid for every track: words in the file may name a host. Ranks that were
    merged into one file stay apart by a number before the pid.
    """
    merged = {name: at for at, name in enumerate(trace.tables.merged)}
    found: list[Place] = []
    for track, pid, tid in trace.tracks.select("id", "pid", "tid").iter_rows():
        match = _RANKED.match(pid) if len(merged) > 1 else None
        number = _number(match[2] if match else pid, 1_000_000 + track)
        shown = f"[{merged[match[1]] if match else 0}] {number}" if len(merged) > 1 else number
        found.append((shown, _number(tid, track)))
    return found


def _number(text: str | None, instead: int) -> int:
    number = int(text) if text and re.fullmatch(r"\d{1,7}", text) else _PIDS
    return number if number < _PIDS else instead


def _tracks(trace: Trace, places: list[Place], allowed: AllowList) -> Iterator[Record]:
    """Names of processes and threads; the machine's own only in a copy that stays on it."""
    gpu = set(trace.host.track[trace.gpu.id].tolist())
    for track, thread in trace.tracks.select("id", "thread").iter_rows():
        pid, tid = places[track]
        on_gpu = track in gpu
        named = thread if "threads" in allowed.keep and thread else f"thread {tid}"
        yield metadata("process_name", pid, 0, name=f"GPU {pid}" if on_gpu else "python")
        yield metadata("thread_name", pid, tid, name=f"stream {tid}" if on_gpu else named)


def _arrows(trace: Trace, places: list[Place], base: int) -> Iterator[Record]:
    host, gpu = trace.host, trace.gpu
    drawn = (gpu.launch >= 0) & gpu.usable & host.timed[gpu.launch]
    for event, launch in zip(gpu.id[drawn].tolist(), gpu.launch[drawn].tolist(), strict=True):
        for phase, end in (("s", launch), ("f", event)):
            at = int(host.start[end]) - base
            yield arrow(phase, _FLOWS + event, "ac2g", *places[int(host.track[end])], at)


def _arguments(trace: Trace, allowed: AllowList) -> dict[int, Record]:
    found = defaultdict[int, Record](dict)

    def take(fields: list[tuple[str, str, str]], shown: Callable[[Any], Any]) -> None:
        for table, column, key in fields:
            known: dict[Any, Any] = {None: None}
            for event, value in trace.tables[table].select("event", column).iter_rows():
                if value not in known:
                    known[value] = shown(value)
                if known[value] is not None:
                    found[event][key] = known[value]

    hidden: dict[int, int] = {}

    def numbered(value: int) -> int:
        """A stream or device with a number that is too long to show stays one of its own."""
        return value if abs(value) < _PIDS else hidden.setdefault(value, _PIDS + len(hidden))

    named = [field for field in NUMBERS if field[1] in ("device", "stream", "wait_stream")]
    take(named, numbered)
    rest = [field for field in NUMBERS if field not in named]
    take(rest, lambda value: value if abs(value) < _LARGEST else None)
    for texts, fields in LISTED:
        take(fields, partial(allowed.listed, texts))
    for name, fields in (("inputs", INPUTS), ("stacks", STACKS)):
        if name in allowed.keep:
            take(fields, lambda value: cleaned(_parsed(value), allowed.kept))
    # Sizes and types are lists of numbers and of type names: nothing else passes.
    shown = [_recorded(form, allowed) for form in trace.arguments.signatures]
    for event, signature in trace.tables["shapes"].iter_rows():
        found[event] |= shown[signature]
    for event, kernel, grid in trace.tables["launches"].iter_rows():  # ROCm's calls state it
        stated = {"kernel": allowed.name(kernel) if kernel else "", "grid": grid}
        found[event] |= {key: value for key, value in stated.items() if value}
    for event, grid, block in trace.tables["gpu"].select("event", "grid", "block").iter_rows():
        sizes = {"grid": grid, "block": block}
        found[event] |= {key: size for key, size in sizes.items() if size}
    return found


def _parsed(text: str) -> Any:
    """A value that the tables hold as JSON text; the text itself where it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _recorded(form: Signature, allowed: AllowList) -> Record:
    """The recorded arguments of an op call; of the values, numbers unless inputs are kept. How many
    elements an operand has stays: its sizes say the same.
    """
    counts = {prod(size) for size in form.dims if size and all(type(n) is int for n in size)}

    def shown(text: str) -> str:
        counted = _COUNT.fullmatch(text) and int(text) in counts
        return text if counted or _PLAIN.fullmatch(text) else ""

    more = {
        "Input Strides": [size or [] for size in form.strides],
        "Input type": [allowed.listed(TYPES, name) or "" for name in form.types],
        "Concrete Inputs": (
            cleaned(form.concrete, allowed.kept)
            if "inputs" in allowed.keep
            else [shown(value) for value in form.concrete]
        ),
    }
    given = {key: value for key, value in more.items() if value}
    return {"Input Dims": [size or [] for size in form.dims]} | given
