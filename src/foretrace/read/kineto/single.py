"""One record by itself: typed as its writer meant it, or of another shape, or repaired."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from foretrace.read.kineto.coerce import coerce, exact_times
from foretrace.read.kineto.records import Event, decode_any_exact
from foretrace.read.kineto.sound import badly_escaped, sound_events
from foretrace.read.limits import Limits
from foretrace.schema.ledger import LedgerBuilder

# an open one matches too: else each of its escaped quotes is tried up to the end
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+("?)', re.DOTALL)
_LONG_NUMBER = re.compile(rb"[:,\[\s]-?\d{19,}+\s*+[,}\]]")  # may not fit 64 bits


class SingleRecord:
    """Decodes the bytes of one record; what they are does not depend on their neighbours."""

    def __init__(self, limits: Limits, ledger: LedgerBuilder) -> None:
        self.limits, self.ledger = limits, ledger

    def sound(self, piece: bytes, *, loosely: bool) -> Event | None:
        """The record, counted as seen; None when it is no sound JSON or exceeds a limit.

        Without `loosely` it must have the keys and types that every writer gives.
        """
        event = self._typed(piece) or (self._loose(piece) if loosely else None)
        self.ledger.seen += event is not None
        return event

    def _typed(self, piece: bytes) -> Event | None:
        """The record as every chunk of sound records is read."""
        events = sound_events(piece, exact=True)
        if events is None or len(events) != 1 or not events[0].ph:
            return None
        if self._exceeded(piece):
            return None
        if len(piece) > 7 * self.limits.args and self._many(_value(piece)):
            return None
        self.ledger.note("ts_type", exact_times(events))
        return events[0]

    def _loose(self, piece: bytes) -> Event | None:
        """A sound record with values of other types than its writer's, or with other keys."""
        found = _value(piece)
        # the slow reader counts keys written twice, and drops what is nested too deeply
        odd = piece.count(b'"dtype"') > 1 or _LONG_NUMBER.search(piece) or badly_escaped(piece)
        if not isinstance(found, dict) or not found or odd or self._exceeded(piece):
            return None
        if self._many(found) or not _shallow(found, self.limits.depth):
            return None
        return coerce(found, self.ledger)

    def _exceeded(self, piece: bytes) -> str | None:
        """The limit of size that a record exceeds."""
        most = self.limits.string
        if len(piece) > self.limits.event:
            return "limit_event"
        strings = _STRING.finditer(piece) if len(piece) > most else ()
        if any(match[1] and len(match[0]) > most for match in strings):
            return "limit_string"
        return None

    def _many(self, found: object) -> bool:
        """Whether there are too many arguments, or who knows how many."""
        args = found.get("args") if isinstance(found, dict) else None
        return found is None or (isinstance(args, dict) and len(args) > self.limits.args)

    def repaired(self, piece: bytes, offset: int) -> Event:
        """The record, counted as seen and perhaps as repaired; raises `Unrepairable`."""
        from foretrace.read.kineto.repair import Unrepairable, repair

        if exceeded := self._exceeded(piece):
            raise Unrepairable(exceeded)
        found = repair(piece, self.limits)
        if not isinstance(found.value, dict) or not found.value:
            raise Unrepairable("ts_missing" if found.value == {} else "event_unparsable")
        self.ledger.seen += 1
        self.ledger.repaired += found.changed
        for code, count in found.oddities.items():
            self.ledger.note(code, count, where=(offset, len(piece)))
        return coerce(found.value, self.ledger)


def _value(piece: bytes) -> Any:
    """What sound JSON says; None when it cannot be said."""
    try:
        return decode_any_exact(piece)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _shallow(value: object, depth: int) -> bool:
    """Whether nothing is nested deeper than `depth`; level by level, without recursion."""
    level = [value]
    for _ in range(depth):
        level = [
            item
            for thing in level
            if isinstance(thing, dict | list)
            for item in (thing.values() if isinstance(thing, dict) else thing)
        ]
        if not level:
            return True
    return not any(isinstance(thing, dict | list) for thing in level)
