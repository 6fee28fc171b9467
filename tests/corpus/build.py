"""The building blocks of every made-up trace: documents, layouts, G0, Gn, and the ways a file is
cut or packed.

Times are integer nanoseconds everywhere; `us` writes them the way Kineto does (`1200.000`). A `Raw`
value is written as it stands, which is how damage gets into a file that is otherwise well formed.
Text may hold lone surrogates (`"\\udcff"`): they become the raw byte they stand for, so a name can
carry bytes that are not UTF-8.

    g0().bytes()                      the good mini trace, as Kineto writes it
    g0().edit(E7, dur=us(5)).bytes("minified")
    gn(1000).bytes()                  G0 with a thousand launches
"""

from __future__ import annotations

import copy
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from json.encoder import encode_basestring as quoted
from typing import Any

Event = dict[str, Any]

BASE_NS = 1_790_857_026_000_000_000
E1, E2, E3, E4, E5, E6, E7, E8, E9, E10, E11 = range(11)
TAIL = {"traceName": "/home/alice/secret_project/t.json"}
DEVICE = {
    "id": 0,
    "name": "NVIDIA H100",
    "totalGlobalMem": 84929347584,
    "computeMajor": 9,
    "computeMinor": 0,
    "numSms": 132,
}
HEADER = {
    "schemaVersion": 1,
    "deviceProperties": [DEVICE],
    "with_stack": 1,
    "record_shapes": 1,
    "host_name": "node7",
    "displayTimeUnit": "ms",
    "baseTimeNanoseconds": BASE_NS,
}


class Raw(str):
    """JSON text that is written as it stands, right or wrong."""

    __slots__ = ()


def us(ns: int) -> Raw:
    """Nanoseconds as Kineto prints them: microseconds with three decimals."""
    sign, whole = ("-", -ns) if ns < 0 else ("", ns)
    return Raw(f"{sign}{whole // 1000}.{whole % 1000:03}")


def complete(
    cat: str | None, name: Any, pid: Any, tid: Any, ts: int, dur: int, args: Event | None = None
) -> Event:
    """A `ph: X` event; `ts` and `dur` in nanoseconds."""
    event: Event = {"ph": "X"}
    if cat is not None:
        event["cat"] = cat
    event |= {"name": name, "pid": pid, "tid": tid, "ts": us(ts), "dur": us(dur)}
    if args is not None:
        event["args"] = args
    return event


def meta(name: str, pid: Any, tid: Any, args: Event) -> Event:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args}


def flow(
    ph: str, ident: Any, pid: Any, tid: Any, ts: int, cat: str = "ac2g", name: str | None = None
) -> Event:
    event = {
        "ph": ph,
        "id": ident,
        "pid": pid,
        "tid": tid,
        "ts": us(ts),
        "cat": cat,
        "name": name or cat,
    }
    return event | {"bp": "e"} if ph == "f" else event


def instant(name: str, pid: Any, tid: Any, ts: int) -> Event:
    return {"name": name, "ph": "i", "s": "g", "pid": pid, "tid": tid, "ts": us(ts)}


def written(value: Any, comma: str, colon: str) -> str:
    """One value as JSON text on one line, with `Raw` parts left alone."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, str):
        return quoted(value)
    if type(value) is int:
        return str(value)
    if isinstance(value, dict):
        pairs = [quoted(key) + colon + written(item, comma, colon) for key, item in value.items()]
        return "{" + comma.join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + comma.join([written(item, comma, colon) for item in value]) + "]"
    return json.dumps(value)


def text(value: Any) -> str:
    """As `json.dumps` writes it."""
    return written(value, ", ", ": ")


def tight(value: Any) -> str:
    """Without a single blank: `json.dumps(..., separators=(",", ":"))`."""
    return written(value, ",", ":")


def pretty_event(event: Any) -> str:
    """One event as Kineto 2026 lays it out: one key per line, two blanks before the brace, the
    arguments opened up.
    """
    if not isinstance(event, dict) or not event:
        return "  " + text(event)
    lines = []
    for key, value in event.items():
        if key == "args" and isinstance(value, dict) and value:
            inner = ",\n".join(f"      {text(k)}: {text(v)}" for k, v in value.items())
            lines.append(f'    "args": {{\n{inner}\n    }}')
        else:
            lines.append(f"    {text(key)}: {text(value)}")
    return "  {\n" + ",\n".join(lines) + "\n  }"


@dataclass
class Doc:
    """A trace before it is written: header keys, events, and the keys that follow the events."""

    events: list[Any]
    header: Event = field(default_factory=lambda: copy.deepcopy(HEADER))
    tail: Event = field(default_factory=lambda: dict(TAIL))

    def edit(self, index: int, **fields: Any) -> Doc:
        """Set fields of one event; a field set to `None` stays (JSON null), see `drop`."""
        self.events[index].update(fields)
        return self

    def args(self, index: int, fields: Event) -> Doc:
        self.events[index].setdefault("args", {}).update(fields)
        return self

    def drop(self, index: int, *keys: str) -> Doc:
        """Remove fields, or arguments written as `args.NAME`."""
        for key in keys:
            event = self.events[index]
            (event["args"].pop(key[5:]) if key.startswith("args.") else event.pop(key))
        return self

    def add(self, *events: Any) -> Doc:
        """Put events before the last one, which Kineto keeps for `Record Window End`."""
        self.events[-1:-1] = events
        return self

    def head(self, **fields: Any) -> Doc:
        self.header.update(fields)
        return self

    def bytes(self, layout: str = "pretty") -> bytes:
        return raw_bytes(LAYOUTS[layout](self))


def raw_bytes(line: str) -> bytes:
    return line.encode("utf-8", "surrogateescape")


def _pretty(doc: Doc) -> str:
    head = "".join(f"  {text(key)}: {text(value)},\n" for key, value in doc.header.items())
    tail = "".join(f",\n  {text(key)}: {text(value)}" for key, value in doc.tail.items())
    return (
        "{\n"
        + head
        + '  "traceEvents": [\n'
        + ",\n".join(map(pretty_event, doc.events))
        + "\n  ]"
        + tail
        + "\n}\n"
    )


def _kineto(doc: Doc) -> str:
    """As torch 2.4 to 2.12 write it: several keys on a line, arguments on one line, a leading
    newline.
    """
    events = []
    for event in doc.events:
        keys = [f"{text(key)}: {text(value)}" for key, value in event.items() if key != "args"]
        args = (
            f',\n    "args": {{\n      {text(event["args"])[1:-1]}\n    }}'
            if "args" in event
            else ""
        )
        events.append("  {\n    " + ", ".join(keys) + args + "\n  }")
    head = "".join(f"    {text(key)}: {text(value)},\n" for key, value in doc.header.items())
    tail = "".join(f",\n  {text(key)}: {text(value)}" for key, value in doc.tail.items())
    return "\n  {\n" + head + '  "traceEvents": [\n' + ",\n".join(events) + "\n  ]" + tail + "\n}\n"


def _old_order(doc: Doc) -> str:
    """Kineto 2024-05 to 2025-03: the time unit and the base come after the events."""
    late = ("displayTimeUnit", "baseTimeNanoseconds")
    header = {key: value for key, value in doc.header.items() if key not in late}
    tail = doc.tail | {key: doc.header[key] for key in late if key in doc.header}
    return _pretty(Doc(doc.events, header, tail))


def _minified(doc: Doc) -> str:
    return tight(doc.header | {"traceEvents": doc.events} | doc.tail)


def _lines(doc: Doc) -> str:
    """The Python exporter of torch 2.13: one tight event per line."""
    head = "".join(f"{tight(key)}:{tight(value)},\n" for key, value in doc.header.items())
    tail = "".join(f",\n{tight(key)}:{tight(value)}" for key, value in doc.tail.items())
    return (
        "{\n"
        + head
        + '"traceEvents":[\n'
        + ",\n".join(map(tight, doc.events))
        + "\n]"
        + tail
        + "}\n"
    )


def _list(doc: Doc) -> str:
    """The legacy autograd form: a bare list of events, no header at all."""
    return text(doc.events)


def _json_lines(doc: Doc) -> str:
    return "".join(tight(event) + "\n" for event in doc.events)


LAYOUTS: dict[str, Callable[[Doc], str]] = {
    "pretty": _pretty,
    "kineto": _kineto,
    "old_order": _old_order,
    "minified": _minified,
    "lines": _lines,
    "list": _list,
    "json_lines": _json_lines,
}


# ---- G0 and its relatives
# -------------------------------------------------------------------------------------------


def launch_events(shift_ns: int = 0, correlation: int = 7, external: int = 2) -> list[Event]:
    """e4 to e8: an op, its launch, the kernel and the two halves of the arrow between them."""
    ids = {"External id": external}
    op = {"Input Dims": [[8, 8], [8, 8]], "Ev Idx": external - 1}
    linked = {"correlation": correlation}
    where = {"device": 0, "context": 1, "stream": 7}
    sizes = {"grid": [4, 4, 1], "block": [128, 1, 1]}
    at, call, run = 1_100_000 + shift_ns, 1_150_000 + shift_ns, 1_200_000 + shift_ns
    launch = ids | {"cbid": 211} | linked
    return [
        complete("cpu_op", "aten::mm", 100, 100, at, 200_000, ids | op),
        complete("cuda_runtime", "cudaLaunchKernel", 100, 100, call, 10_000, launch),
        flow("s", correlation, 100, 100, call),
        complete("kernel", "sgemm", 0, 7, run, 50_000, ids | where | linked | sizes),
        flow("f", correlation, 0, 7, run),
    ]


def gn(n: int) -> Doc:
    """G0 with `n` copies of e4 to e8, each 300 us after the last, with fresh correlation and
    External ids.
    """
    copies = [event for i in range(n) for event in launch_events(300_000 * i, 7 + i, 2 + i)]
    step, first = "ProfilerStep#2", {"External id": 1}
    profiler = ("PyTorch Profiler (0)", "Spans", "PyTorch Profiler")
    return Doc(
        [
            meta("process_name", 100, 0, {"name": "python"}),
            meta("process_labels", 0, 0, {"labels": "GPU 0"}),
            complete(
                "user_annotation", step, 100, 100, 1_000_000, 1_000_000, first | {"Ev Idx": 0}
            ),
            *copies,
            complete("gpu_user_annotation", step, 0, 7, 1_199_999, 50_002, first),
            complete("Trace", *profiler, 990_000, 1_100_000, {"Op count": 0}),
            instant("Record Window End", "", "", 2_100_000),
        ]
    )


def g0() -> Doc:
    """The good mini trace: 11 events, one kernel of 50 000 ns, one launch, one step, one op,
    nothing to warn about.
    """
    return gn(1)


def gn_chunks(n: int) -> Iterator[bytes]:
    """`gn(n).bytes()` in pieces, for files larger than memory should hold."""
    before, after = gn(0).bytes().split(b'  {\n    "ph": "X",\n    "cat": "gpu_user_annotation"')
    yield before
    for i in range(n):
        yield b"".join(
            raw_bytes(pretty_event(e)) + b",\n" for e in launch_events(300_000 * i, 7 + i, 2 + i)
        )
    yield b'  {\n    "ph": "X",\n    "cat": "gpu_user_annotation"' + after


def cut(data: bytes, x: int) -> bytes:
    return data[:x]


def gz(data: bytes, name: bytes = b"", level: int = 6) -> bytes:
    """One gzip member, the same bytes every time; `name` goes into the FNAME field."""
    header = (
        b"\x1f\x8b\x08"
        + (b"\x08" if name else b"\0")
        + b"\0\0\0\0\0\xff"
        + (name + b"\0" if name else b"")
    )
    packer = zlib.compressobj(level, zlib.DEFLATED, -15)
    body = packer.compress(data) + packer.flush()
    return header + body + struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)


def interleave(streams: list[bytes], block: int) -> bytes:
    """What several writers leave in one file: a block of each in turn until all are used up."""
    longest = max(map(len, streams))
    return b"".join(
        stream[at : at + block] for at in range(0, longest, block) for stream in streams
    )
