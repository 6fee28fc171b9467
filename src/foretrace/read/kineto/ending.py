"""What follows the list of events: keys, a second list, or what another writer left in the file."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from foretrace.read.kineto.boundaries import FIRST_KEY
from foretrace.read.kineto.buffer import CHUNK, Buffer
from foretrace.read.kineto.careful import After
from foretrace.read.kineto.header import RECORD, Tail, read_tail
from foretrace.read.limits import Limits
from foretrace.schema.ledger import LedgerBuilder

_TAIL = 4 << 10  # the keys that current writers put there are far shorter
_KEPT = 64 << 10  # what is looked at again when more bytes come


class Ending(Struct, frozen=True):
    """The keys behind the events; `goes_on`: more events follow, of a new list or of the same."""

    entries: dict[str, Any]
    goes_on: After | None = None


def read_ending(
    buffer: Buffer, in_object: bool, limits: Limits, ledger: LedgerBuilder, *, again: bool
) -> Ending:
    """Read on from the `]` that closed the events; with `again`, more events may be read."""
    entries: dict[str, Any] = {}
    if not in_object:
        buffer.drop(1)
    else:
        tail = _tail(buffer, limits, ledger)
        buffer.drop(tail.end)
        entries = tail.entries
        ledger.note("trace_truncated", tail.truncated)
        if tail.events_follow:
            text = "`traceEvents` is written twice; the last list that is not empty counts"
            ledger.note("dup_key", text=text)
            if again:
                return Ending(entries, After.START)
    return Ending(entries, After.RECORD if _trailing(buffer, ledger, again) else None)


def _tail(buffer: Buffer, limits: Limits, ledger: LedgerBuilder) -> Tail:
    size = _TAIL
    while True:
        buffer.fill(size)
        text = buffer.data[:size]
        last = size > limits.event or (buffer.ended and len(text) == len(buffer.data))
        tail = read_tail(text, last, limits, ledger)
        if tail is not None:
            return tail
        size *= 4


def _trailing(buffer: Buffer, ledger: LedgerBuilder, again: bool) -> bool:
    """Step over what follows the document; True where the records of another writer begin."""
    _skip_blanks(buffer)
    begin, end, records = buffer.offset, buffer.offset, False
    whole = buffer.data[:1] in (b"{", b"[") and not FIRST_KEY.match(buffer.data)
    while buffer.data:
        found = RECORD.search(buffer.data) if again and not whole else None
        if found is not None:
            ledger.note("interleaved_writers")
            ledger.leave(begin, buffer.offset + found.start() + 1 - begin)
            buffer.drop(found.start() + 1)
            return True
        records = records or b'"ph"' in buffer.data
        end = max(end, buffer.offset + len(buffer.data.rstrip()))
        if buffer.ended:
            break
        kept = min(len(buffer.data), _KEPT)
        buffer.drop(len(buffer.data) - kept)
        buffer.fill(kept + CHUNK)
    if end > begin:
        text = f"{end - begin:,} bytes after the end of the document were ignored"
        ledger.note("trailing_data", text=text)
        if records:
            ledger.leave(begin, end - begin)
    return False


def _skip_blanks(buffer: Buffer) -> None:
    while True:
        buffer.drop(len(buffer.data) - len(buffer.data.lstrip()))
        if buffer.data or buffer.ended:
            buffer.fill(_KEPT)
            return
        buffer.fill(CHUNK)
