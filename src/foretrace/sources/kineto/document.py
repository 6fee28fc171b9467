"""A whole trace document, read as a stream: header, events, tail. Large plain files are shared out
to worker processes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from foretrace.errors import TraceError
from foretrace.schema.ledger import LedgerBuilder
from foretrace.sources.bytestream import ByteStream
from foretrace.sources.kineto.columns import Columns
from foretrace.sources.kineto.events import CHUNK, WINDOW, Buffer, EventReader
from foretrace.sources.kineto.header import find_events, read_header, read_tail
from foretrace.sources.kineto.parallel import read_apart
from foretrace.sources.limits import Limits
from foretrace.sources.sniff import refuse_no_events, refuse_non_json

# An absolute time with decimals: a float near 1.7e15 has steps of a quarter microsecond.
_ABSOLUTE_DECIMAL = re.compile(rb'"ts"\s*:\s*"?(\d{14,16})\.\d*[1-9]')


@dataclass(slots=True)
class Document:
    """What reading gives: columns in file order, and every header entry."""

    columns: list[Columns] = field(default_factory=list)
    header: dict[str, Any] = field(default_factory=dict)
    origin_us: int = 0


def read_document(
    stream: ByteStream,
    limits: Limits,
    ledger: LedgerBuilder,
    meanwhile: Callable[[], object] = lambda: None,
) -> Document:
    """Read `stream` to its end. Raises `TraceError` when it cannot be a trace."""
    buffer = Buffer(stream.blocks, stream.plain_start)
    start = _find_start(buffer, stream.label, limits)
    document = Document(header=read_header(start[1], limits, ledger))
    in_object = bool(start[1])
    buffer.drop(start[0])
    document.origin_us = _origin(buffer)
    if not document.origin_us:
        document.columns, buffer = read_apart(stream, buffer, limits, ledger, meanwhile)
    closed = _read_events(document, buffer, limits, ledger, first=not document.columns)
    while closed and _after_events(buffer, in_object, limits, ledger, document):
        closed = _read_events(document, buffer, limits, ledger, first=True)
    if not closed and not ledger.counts.get("limit_events"):
        ledger.note("trace_truncated", 0 if ledger.counts.get("trace_truncated") else 1)
    _refuse_if_nothing(document, ledger, stream.label)
    return document


def _find_start(buffer: Buffer, label: str, limits: Limits) -> tuple[int, bytes]:
    """(where the events begin, header text); refuses what is not a trace."""
    size = WINDOW
    buffer.fill(size)
    while not buffer.data.strip() and not buffer.ended:
        buffer.drop(len(buffer.data))
        buffer.fill(size)
    if not buffer.data.strip():
        raise TraceError(
            "E_EMPTY", label, "empty", offset=0, hint="was the export killed? record again"
        )
    refuse_non_json(label, buffer.data[: 1 << 20], limits.depth)
    while True:
        found = find_events(buffer.data)
        if found is not None:
            break
        if buffer.ended:
            raise refuse_no_events(label, buffer.data, buffer.data.rstrip().endswith((b"}", b"]")))
        if len(buffer.data) > limits.event:
            raise TraceError(
                "E_NO_EVENTS",
                label,
                f"no events in the first {limits.event:,} bytes",
                offset=len(buffer.data),
                hint="raise it with --limit event=NUMBER",
            )
        size *= 4
        buffer.fill(size)
    if found.is_object:
        raise TraceError(
            "E_NO_EVENTS",
            label,
            "`traceEvents` is not a list",
            offset=found.at,
            hint="give a Chrome-trace JSON file as torch.profiler writes it",
        )
    return found.at, found.header


def _read_events(
    document: Document, buffer: Buffer, limits: Limits, ledger: LedgerBuilder, *, first: bool
) -> bool:
    """Read one list of events into the document; True when the list was closed."""
    room = limits.events - sum(map(len, document.columns))
    reader = EventReader(buffer, limits, ledger, room, document.origin_us)
    document.columns.append(reader.columns)
    return reader.run(first)


def _after_events(
    buffer: Buffer, in_object: bool, limits: Limits, ledger: LedgerBuilder, document: Document
) -> bool:
    """Read what follows the list; True when a second `traceEvents` key was found and is to be read
    as well.
    """
    buffer.fill(limits.event)
    tail = read_tail(buffer.data[1:], in_object, limits, ledger)
    for key, value in tail.entries.items():
        document.header[key] = value
    if tail.events_at is not None:
        ledger.note(
            "dup_key", text="`traceEvents` is written twice; the list that is not empty counts"
        )
        buffer.drop(1 + tail.events_at)
        return True
    if tail.truncated:
        ledger.note("trace_truncated")
    if tail.trailing:
        ledger.note(
            "trailing_data",
            text=f"{tail.trailing:,} bytes after the end of the document were ignored",
        )
    return False


def _refuse_if_nothing(document: Document, ledger: LedgerBuilder, label: str) -> None:
    held = sum(len(columns) for columns in document.columns)
    if not held and ledger.skipped and not document.header:
        raise TraceError(
            "E_NO_EVENTS",
            label,
            "a JSON list, but not of trace events",
            offset=0,
            hint="give a Chrome-trace JSON file as torch.profiler writes it",
        )


def _origin(buffer: Buffer) -> int:
    """What times are counted from so that floats hold them exactly; 0 for every current writer."""
    buffer.fill(CHUNK)
    match = _ABSOLUTE_DECIMAL.search(buffer.data[:CHUNK])
    return int(match[1]) if match else 0
