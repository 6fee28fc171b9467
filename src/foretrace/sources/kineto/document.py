"""A whole trace document, read as a stream: header, events, tail. Workers decode large files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from foretrace.errors import TraceError
from foretrace.schema.ledger import LedgerBuilder
from foretrace.sources.bytestream import ByteStream
from foretrace.sources.kineto.columns import Columns
from foretrace.sources.kineto.events import WINDOW, Buffer, EventReader
from foretrace.sources.kineto.header import find_events, read_header, read_tail
from foretrace.sources.limits import Limits, raised_by
from foretrace.sources.sniff import CHROME_HINT, empty, refuse_no_events, refuse_non_json


class Document(Struct):
    """What reading gives: columns in file order, and every header entry."""

    columns: list[Columns] = field(default_factory=list)
    header: dict[str, Any] = field(default_factory=dict)


def read_document(
    stream: ByteStream,
    limits: Limits,
    ledger: LedgerBuilder,
    apart: Callable[[ByteStream, Buffer], list[Columns]] = lambda *_: [],
) -> Document:
    """Read `stream` to its end; `apart` may decode most of it elsewhere.

    Raises `TraceError` when it cannot be a trace.
    """
    buffer = Buffer(stream.blocks, stream.start)
    start = _find_start(buffer, stream.label, limits)
    document = Document(header=read_header(start[1], limits, ledger))
    in_object = bool(start[1])
    buffer.drop(start[0])
    document.columns = apart(stream, buffer)
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
        raise empty(label)
    refuse_non_json(label, buffer.data[: 1 << 20], limits.depth)
    while True:
        found = find_events(buffer.data)
        if found is not None:
            break
        if buffer.ended:
            raise refuse_no_events(label, buffer.data, buffer.data.rstrip().endswith((b"}", b"]")))
        if len(buffer.data) > limits.event:
            what, hint = f"no events in the first {limits.event:,} bytes", raised_by("event")
            raise TraceError("E_NO_EVENTS", label, what, offset=len(buffer.data), hint=hint)
        size *= 4
        buffer.fill(size)
    if found.is_object:
        what = "`traceEvents` is not a list"
        raise TraceError("E_NO_EVENTS", label, what, offset=found.at, hint=CHROME_HINT)
    return found.at, found.header


def _read_events(
    document: Document, buffer: Buffer, limits: Limits, ledger: LedgerBuilder, *, first: bool
) -> bool:
    """Read one list of events into the document; True when the list was closed."""
    room = limits.events - sum(map(len, document.columns))
    reader = EventReader(buffer, limits, ledger, room)
    document.columns.append(reader.columns)
    return reader.run(first)


def _after_events(
    buffer: Buffer, in_object: bool, limits: Limits, ledger: LedgerBuilder, document: Document
) -> bool:
    """Read what follows the list; True when a second `traceEvents` list is to be read as well."""
    buffer.fill(limits.event)
    tail = read_tail(buffer.data[1:], in_object, limits, ledger)
    document.header |= tail.entries
    if tail.events_at is not None:
        text = "`traceEvents` is written twice; the list that is not empty counts"
        ledger.note("dup_key", text=text)
        buffer.drop(1 + tail.events_at)
        return True
    if tail.truncated:
        ledger.note("trace_truncated")
    if tail.trailing:
        text = f"{tail.trailing:,} bytes after the end of the document were ignored"
        ledger.note("trailing_data", text=text)
    return False


def _refuse_if_nothing(document: Document, ledger: LedgerBuilder, label: str) -> None:
    if not any(map(len, document.columns)) and ledger.skipped and not document.header:
        what = "a JSON list, but not of trace events"
        raise TraceError("E_NO_EVENTS", label, what, offset=0, hint=CHROME_HINT)
