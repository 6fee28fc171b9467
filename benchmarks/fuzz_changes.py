"""How `fuzz.py` changes an input: fields and events of the decoded JSON, lines of a log, bytes."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

Document = dict[str, Any]

HOSTILE: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 7, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64),
    *(0.0, -0.5, 0.001, 1e15, 9e15, 1e300, -1e300, float("nan"), float("inf"), float("-inf")),
    *("", "0", "-7", "1e3", "nan", "0x10", "true", " 7 ", "stream 7", "x" * 5000, "\x00\x1b[2J"),
    *("\u202eabc\u2028", "\ud800", "a\nb\tc", "'\"\\<script>&", "ProfilerStep#3"),
    *("kernel", "cpu_op", "gpu_memcpy", "user_annotation", "python_function", "cuda_runtime", "X"),
    *("aten::mm", "aten::item", "cudaGraphLaunch", "cudaDeviceSynchronize", "Memcpy DtoH", "nccl"),
    *([], [[]], [1, -2], [[8, 8], []], [[2**62, 2**62]], {}, {"a": {"b": [1, {}]}}, [0] * 400),
)  # fmt: skip
ARGUMENTS = (
    *("correlation", "External id", "stream", "device", "grid", "block", "Input Dims", "bytes"),
    *("Input type", "Input Strides", "Concrete Inputs", "Call stack", "Python id", "Ev Idx"),
    *("Python parent id", "Sequence number", "Fwd thread id", "Collective name", "Group size"),
    *("In msg nelems", "dtype", "registers per thread", "graph node id", "kernel_file", "Addr"),
    *("Bytes", "Total Allocated", "Device Id", "cuda_sync_kind", "queued", "Group Ranks"),
)  # fmt: skip
FIELDS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "args", "s", "bp")
HEADER = (
    *("deviceProperties", "distributedInfo", "baseTimeNanoseconds", "traceName", "schemaVersion"),
    *("record_shapes", "with_stack", "profile_memory", "cuda_driver_version", "displayTimeUnit"),
)  # fmt: skip


def fields_of(event: Any, chooser: random.Random) -> Document:
    """The event, or its arguments, as a dictionary to change."""
    inner = event.get("args") if isinstance(event, dict) else None
    if isinstance(inner, dict) and chooser.random() < 0.5:
        return inner
    return event if isinstance(event, dict) else {}


def set_field(events: list[Any], chooser: random.Random) -> None:
    fields = fields_of(chooser.choice(events), chooser)
    known = FIELDS if "ph" in fields else ARGUMENTS
    fields[chooser.choice([*fields, *known])] = copy.deepcopy(chooser.choice(HOSTILE))


def splice_field(events: list[Any], chooser: random.Random) -> None:
    """Give one event, or several, a value of another: streams, parents, times, correlations."""
    source = fields_of(chooser.choice(events), chooser)
    if not source:
        return
    key = chooser.choice([*source])
    for event in group(events, chooser):
        inner = event.get("args")
        target = event if "ph" in source else inner if isinstance(inner, dict) else {}
        target[key] = source[key]


def drop_field(events: list[Any], chooser: random.Random) -> None:
    key = chooser.choice((*FIELDS, *ARGUMENTS))
    for event in group(events, chooser):
        event.pop(key, None)
        if isinstance(event.get("args"), dict):
            event["args"].pop(key, None)


def swap_fields(events: list[Any], chooser: random.Random) -> None:
    one, two = (fields_of(chooser.choice(events), chooser) for _ in range(2))
    if one and two:
        a, b = chooser.choice([*one]), chooser.choice([*two])
        one[a], two[b] = two[b], one[a]


def group(events: list[Any], chooser: random.Random) -> list[Document]:
    """One event, a stretch of them, or all that share a field with one of them."""
    whole = [event for event in events if isinstance(event, dict)]
    if not whole:
        return []
    how, at = chooser.random(), chooser.randrange(len(whole))
    if how < 0.3:
        return [whole[at]]
    if how < 0.5:
        return whole[at : at + chooser.randrange(1, 60)]
    key = chooser.choice(("cat", "name", "pid", "tid", "ph"))
    return [event for event in whole if event.get(key) == whole[at].get(key)]


def shift(events: list[Any], chooser: random.Random) -> None:
    """Move a group, or make it shorter or longer."""
    by = chooser.choice((-1, 1)) * 10 ** chooser.uniform(-3, 7)
    key, factor = chooser.choice(("ts", "ts", "dur")), chooser.choice((0, 0, 0, 1, 2, 0.5, -1))
    for event in group(events, chooser):
        value = event.get(key)
        if isinstance(value, int | float) and isfinite(value):
            event[key] = value * factor if key == "dur" else value + by


def number(events: list[Any], chooser: random.Random) -> None:
    """One number for a whole group: a correlation, a stream, a device, a parent, a process."""
    key = chooser.choice((*ARGUMENTS[:4], "Python id", "Python parent id", "pid", "tid", "ts"))
    value, add = chooser.choice((0, 1, 7, -1, 99, 2**40)), chooser.random() < 0.5
    for event in group(events, chooser):
        inner = event.get("args")
        target = event if key in FIELDS else inner if isinstance(inner, dict) else {}
        old = target.get(key)
        target[key] = old + value if add and isinstance(old, int | float) else value


def drop_events(events: list[Any], chooser: random.Random) -> None:
    gone = {id(event) for event in group(events, chooser)}
    if len(gone) < len(events):
        events[:] = [event for event in events if id(event) not in gone]


def swap_events(events: list[Any], chooser: random.Random) -> None:
    a, b = chooser.randrange(len(events)), chooser.randrange(len(events))
    events[a], events[b] = events[b], events[a]


def repeat(events: list[Any], chooser: random.Random) -> None:
    """A stretch once more: as it is, or later, with correlations of its own."""
    at, later = chooser.randrange(len(events)), chooser.choice((0.0, 1.0, 1e3, 1e5))
    stretch = copy.deepcopy(events[at : at + chooser.randrange(1, 80)])
    for event in stretch if later else ():
        if isinstance(event, dict) and isinstance(event.get("ts"), int | float):
            event["ts"] += later
            inner = event.get("args")
            numbers = inner if isinstance(inner, dict) else {}
            for key in {"correlation", "External id"} & {*numbers}:
                numbers[key] = numbers[key] + 10_000 if isinstance(numbers[key], int) else 1
    events += stretch


CHANGES: tuple[Callable[[list[Any], random.Random], None], ...] = (
    *(set_field, set_field, splice_field, splice_field, drop_field, swap_fields, shift, shift),
    *(number, number, drop_events, swap_events, repeat),
)


def is_log(data: bytes) -> bool:
    """Whether it is a log of the compiler, and no trace."""
    return data[:1] not in (b"{", b"[")


def changed(given: bytes, corpus: Sequence[bytes], chooser: random.Random) -> bytes:
    """These bytes with a few changes; `corpus` has others to merge with."""
    data = given
    if not is_log(given) and chooser.random() < 0.85:
        with contextlib.suppress(ValueError, RecursionError):
            data = changed_document(json.loads(data), corpus, chooser)
    elif is_log(given) and chooser.random() < 0.7:
        lines: list[Any] = data.split(b"\n")
        for _ in range(chooser.randrange(1, 4)):
            if lines:  # the last one may be dropped
                chooser.choice((swap_events, repeat, drop_line))(lines, chooser)
        data = b"\n".join(lines)
    if data == given or chooser.random() < 0.1:
        data = changed_bytes(bytearray(data), chooser)
    return data


def drop_line(lines: list[Any], chooser: random.Random) -> None:
    del lines[chooser.randrange(len(lines))]


def changed_document(document: Any, corpus: Sequence[bytes], chooser: random.Random) -> bytes:
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list) or not events:
        raise ValueError("no events")
    for _ in range(chooser.choice((1, 1, 2, 3, 5, 8))):
        if chooser.random() < 0.04 and isinstance(document, dict):
            key = chooser.choice([*document, *HEADER])
            if key != "traceEvents":
                document[key] = copy.deepcopy(chooser.choice(HOSTILE))
        elif chooser.random() < 0.03:
            other = json.loads(chooser.choice(corpus))
            events += other.get("traceEvents", []) if isinstance(other, dict) else other
        elif events:
            chooser.choice(CHANGES)(events, chooser)
    text = json.dumps(document, ensure_ascii=chooser.random() < 0.7)
    return text.encode("utf-8", "surrogatepass")


def changed_bytes(data: bytearray, chooser: random.Random) -> bytes:
    for _ in range(chooser.choice((1, 1, 2, 4))):
        at = chooser.randrange(len(data) + 1)
        how = chooser.random()
        if how < 0.15:
            del data[at:]
        elif how < 0.3:
            del data[at : at + chooser.randrange(1, 200)]
        elif how < 0.6 and at < len(data):
            data[at] = chooser.randrange(256)
        elif how < 0.85:
            data[at:at] = chooser.choice((b"\x00", b'"', b"{", b"]", b"\xff\xfe", b"NaN", b"\\u12"))
        else:
            data[at:at] = data[at : at + chooser.randrange(1, 3000)]
    return bytes(data)
