"""The list of events: decoded a chunk at a time straight into typed records.

A chunk that will not decode is read again carefully, so damage costs time only where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from foretrace.read.kineto.boundaries import last_boundary
from foretrace.read.kineto.buffer import CHUNK, Buffer
from foretrace.read.kineto.careful import After, CarefulReader
from foretrace.read.kineto.coerce import beyond_floats, exact_times
from foretrace.read.kineto.columns import Columns, Pools
from foretrace.read.kineto.records import Event
from foretrace.read.kineto.sound import SUSPICIOUS, sound_events
from foretrace.read.limits import Limits, raised_by
from foretrace.schema.ledger import LedgerBuilder

_PHASE = attrgetter("ph")


class EventReader:
    """Reads the list of events from a buffer into `columns`, at most `most` of them.

    The bytes of a `piece` end where a record ends and another one follows.
    """

    def __init__(
        self,
        buffer: Buffer,
        limits: Limits,
        ledger: LedgerBuilder,
        most: int | None = None,
        pools: Pools | None = None,
        *,
        piece: bool = False,
    ) -> None:
        self.buffer, self.limits, self.ledger = buffer, limits, ledger
        self.most = limits.events if most is None else most
        self.columns = Columns(pools)
        self.exact = False  # times were met that a float cannot hold, or that are text
        self.careful = CarefulReader(buffer, limits, ledger, piece=piece)

    def run(self, first: bool) -> bool:
        """True when the list was closed; the buffer then stands at its `]`."""
        self.careful.after = After.START if first else After.RECORD
        at, closed = 0, False
        while not closed and not self.careful.full:
            if len(self.buffer.data) - at < CHUNK:
                self.buffer.drop(at)
                self.buffer.fill(CHUNK)
                at = 0
            if at == len(self.buffer.data):
                break
            at, closed = self._chunk(at)
        self.buffer.drop(at)
        if self.careful.full:
            text = f"reading stopped at {self.limits.events:,} events; {raised_by('events')}"
            self.ledger.note("limit_events", text=text)
        return closed

    def _chunk(self, at: int) -> tuple[int, bool]:
        """Read one stretch: where it ended, and whether the list was closed there."""
        data, reader = self.buffer.data, self.careful
        stop = min(at + 2 * CHUNK, len(data))
        cut = last_boundary(data, at, stop)
        if cut > at and self._fast(data[at:cut]):
            reader.after = After.RECORD
            return cut, False
        closed = reader.run(at, cut if cut > at else stop, self.most - len(self.columns))
        self.columns.add(reader.events)
        self.exact |= "ts_type" in self.ledger.counts
        return reader.at, closed

    def _fast(self, data: bytes) -> bool:
        """Take a stretch of whole records, if all of them are sound."""
        first = self.careful.after is After.START
        events = fast_events(data, first, self.limits, self.exact)
        if events and not self.exact and beyond_floats(events):
            self.exact = True
            events = fast_events(data, first, self.limits, exact=True)
        if events is None or len(events) > self.most - len(self.columns):
            return False
        if not all(map(_PHASE, events)):
            return False
        texts = exact_times(events) if self.exact else 0
        self.columns.add(events, exact=self.exact)
        self.ledger.seen += len(events)
        self.ledger.note("ts_type", texts)
        return True


def fast_events(
    data: bytes, first: bool, limits: Limits, exact: bool = False
) -> Sequence[Event] | None:
    """The records of a sound stretch, or None when it must be read carefully."""
    body = data.lstrip(b" \t\r\n")
    if not first:
        if not body.startswith(b","):
            return None
        body = body[1:]
    events = sound_events(body, exact)
    return None if events is None or _holds_huge_record(body, limits) else events


def _holds_huge_record(body: bytes, limits: Limits) -> bool:
    """Whether some record may exceed a limit: then no `"ph"` is in its stretch of bytes."""
    size, at = min(SUSPICIOUS, limits.string, limits.event, 7 * limits.args), 0
    while len(body) - at > size:
        found = body.rfind(b'"ph"', at + 1, at + size)
        if found < 0:
            return True
        at = found
    return False
