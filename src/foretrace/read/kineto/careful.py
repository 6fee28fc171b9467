"""Reads a damaged stretch of events record by record: keeps what is complete, repairs what it can.

What it answers depends on the bytes of the document alone, never on how they were cut into chunks:
where the answer lies behind the bytes at hand, it asks for more. Every record is counted as kept,
repaired or skipped; bytes that belong to no record are noted as unread.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

import msgspec

from foretrace.base.budget import Limits, raised_by
from foretrace.base.patterns import regex
from foretrace.read.kineto.boundaries import (
    BOUNDARY,
    CHUNK,
    CLOSED,
    FIRST_RECORD,
    HOLE,
    LIST,
    LIST_CLOSED,
    OBJECT,
    OTHER_HEADER,
    Bounds,
    Buffer,
    Patience,
    Undecided,
)
from foretrace.read.kineto.records import (
    SUSPICIOUS,
    Event,
    badly_escaped,
    coerce,
    decode_any_exact,
    exact_times,
    repeats_length,
    sound_events,
)
from foretrace.read.ledger import PLACES, LedgerBuilder

# an open one matches too: else each of its escaped quotes is tried up to the end
_STRING = regex(rb'"(?:[^"\\]++|\\.)*+("?)', re.DOTALL)
_LONG_NUMBER = regex(rb"[:,\[\s]-?\d{19,}+\s*+[,}\]]")  # may not fit 64 bits


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
        events = sound_events(b"[" + piece + b"]", exact=True)
        if events is None or len(events) != 1 or not events[0].ph:
            return None
        if self._exceeded(piece) or repeats_length(piece):
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
        if repeats_length(piece):
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


_COMMENT = 4 << 10  # longer ones are no comments
_LOOK = 64 << 10  # blanks behind a closing bracket
_LONG_LIST = 1 << 20  # a longer one among the events is no value
_IN_LIST = regex(rb'\s*+(?:\]|,\s*+(?!"[^"]{0,120}+"\s*+:))')
_CLOSING = regex(rb'\]\s*+(?:,\s*+(?:"|\Z)|\}|\Z)')
_EMPTY = regex(rb"\{\s*+\}")
_EMPTIES = regex(rb"\{\}(?:,\s*+\{\}(?=,)){1,9999}+")  # each followed by a comma
_SEPARATORS = regex(rb"[ \t\r\n,]*+")
_SCALAR = regex(rb'"(?:[^"\\]++|\\.)*+"|[^\s,\]\[{}"\0]++', re.DOTALL)
_TRIES = 4  # a stop is tried as the end of this many records that end before it


class After(Enum):
    """What the next record comes after."""

    START, RECORD, DAMAGE = range(3)


class CarefulReader:
    """Reads `buffer` from `at` into `events`; `full`: there was one event more than wanted.

    The bytes of a `piece` end where a record ends and another one follows.
    """

    def __init__(
        self, buffer: Buffer, limits: Limits, ledger: LedgerBuilder, *, piece: bool
    ) -> None:
        self.buffer, self.limits, self.ledger = buffer, limits, ledger
        self.single, self.piece = SingleRecord(limits, ledger), piece
        self.events: list[Event] = []
        self.stop = 0
        self.at, self.after, self.full = 0, After.START, False
        self.tried, self.patience = (-1, 0), Patience()
        self._look()

    def run(self, at: int, stop: int, most: int) -> bool:
        """Read at most `most` events up to `stop` or a little further; True at the list's `]`."""
        self.at, self.events = at, []
        self.stop = stop + self.buffer.offset
        self._look()
        while self.buffer.offset + self.at < self.stop:
            commas = self._separators()
            if self.at == len(self.data):
                return False
            if self.data[self.at] == LIST_CLOSED:
                if self._closed(commas):
                    return True
                continue
            if len(self.events) >= most:
                self.full = True
                return False
            extra = commas if self.after is After.START else commas - 1
            if extra > 0:
                self.ledger.note("trailing_comma", extra)
            elif extra < 0 and self.after is After.RECORD and self.data[self.at] == OBJECT:
                self.ledger.note("separator_missing")
            self._value(commas)
        return False

    def _look(self) -> None:
        """Take note of the bytes that the buffer holds now."""
        self.data = self.buffer.data
        ended = self.buffer.ended
        self.bounds = Bounds(
            self.data,
            self.limits,
            self.patience,
            last=ended and not self.piece,
            piece=ended and self.piece,
        )

    def _separators(self) -> int:
        """Step to the next value, over any number of blanks; the number of commas before it."""
        commas = 0
        while True:
            match = _SEPARATORS.match(self.data, self.at)
            assert match is not None
            commas += match[0].count(b",")
            self.at = match.end()
            if self.at == len(self.data) and not self.buffer.ended:
                self.buffer.drop(self.at)
                self.buffer.fill(CHUNK)
                self.at = 0
                self._look()
            elif self.data[self.at : self.at + 1] != b"/" or not self._comment():
                return commas

    def _comment(self) -> bool:
        """Step over a comment between events, if one is here."""
        self._need(_COMMENT)
        kind = self.data[self.at : self.at + 2]
        closing = {b"//": b"\n", b"/*": b"*/"}.get(kind, b"")
        end = self.data.find(closing, self.at + 2, self.at + _COMMENT) if closing else -1
        if end < 0:
            return False
        size = end + len(closing) - self.at
        self.ledger.note("comment", where=(self.buffer.offset + self.at, size))
        self.at += size
        return True

    def _closed(self, commas: int) -> bool:
        """Whether the bracket here closes the list; one that does not is stepped over."""
        self._need(_LOOK)
        if _CLOSING.match(self.data[self.at : self.at + _LOOK]):
            self.ledger.note("trailing_comma", commas)
            return True
        self.at = self._stray(self.at)
        return False

    def _stray(self, at: int) -> int:
        """Step over a bracket that neither opens nor closes a list."""
        text = "a stray bracket between events was ignored"
        self.ledger.note("trailing_comma", text=text, where=(self.buffer.offset + at, 1))
        return at + 1

    def _need(self, size: int) -> None:
        if len(self.data) - self.at < size and not self.buffer.ended:
            self.buffer.fill(self.at + size)
            self._look()
        if self.bounds.piece and len(self.data) - self.at < size:
            raise Undecided

    def _value(self, commas: int) -> None:
        """Read one value: a record, or what stands where one should be."""
        while True:
            try:
                at, first = self.at, self.data[self.at]
                self.at = self._record(at) if first == OBJECT else self._junk(at, commas)
                self.after = After.RECORD if self.data[self.at - 1] == CLOSED else After.DAMAGE
                return
            except Undecided:
                if self.buffer.ended:
                    raise
            if len(self.data) - self.at > self.limits.event:
                self._skip_huge()
                return
            self.buffer.fill(len(self.data) * 2 + CHUNK)
            self._look()

    def _record(self, at: int) -> int:
        """Read the record at `at`; returns where it ends."""
        if (empty := _EMPTY.match(self.data, at)) and self.bounds.followed_well(empty.end()):
            return self._skip_empty(at, empty.end())
        stop = self.bounds.stop(at)
        if stop is not None and stop - at < SUSPICIOUS and self._take(at, stop):
            return stop
        end = self.bounds.balanced(at)
        well = end is not None and self.bounds.followed_well(end)
        if end is not None and well and self._take(at, end):
            return end
        if end is not None and well:
            damage = end if stop is None else min(stop, end)
        else:
            damage = self.bounds.end_of_damage(at)
        hole = self.bounds.hole(at, damage)
        if hole is not None:
            return self._skip(at, hole, "event_unparsable")
        code = self._repair(at, damage) if end is None or well or self._untried(damage) else "?"
        if not code:
            return damage
        if end is not None and not well and self._take(at, end, loosely=False):
            return end
        cut = damage == len(self.data) and not self.piece and code == "event_unparsable"
        return self._skip(at, damage, "trace_truncated" if cut else code)

    def _untried(self, stop: int) -> bool:
        """Whether `stop` may be tried once more; many tries would read the same bytes again."""
        stop += self.buffer.offset
        self.tried = (stop, self.tried[1] + 1 if self.tried[0] == stop else 1)
        return self.tried[1] <= _TRIES

    def _take(self, start: int, end: int, *, loosely: bool = True) -> bool:
        """Keep `data[start:end]` if it is one sound record."""
        event = self.single.sound(self.data[start:end], loosely=loosely)
        if event is not None:
            self.events.append(event)
        return event is not None

    def _repair(self, start: int, end: int) -> str:
        """Keep `data[start:end]` if it can be repaired; otherwise the code that says why not."""
        from foretrace.read.kineto.repair import Unrepairable

        try:
            event = self.single.repaired(self.data[start:end], self.buffer.offset + start)
        except Unrepairable as error:
            return error.code
        self.events.append(event)
        return ""

    def _skip_empty(self, start: int, end: int) -> int:
        """Skip an empty record; once the first places are kept, a run of them at a time."""
        places = self.ledger.places.get("ts_missing", ())
        stop = self.stop - self.buffer.offset
        run = _EMPTIES.match(self.data, start, stop) if len(places) >= PLACES else None
        if run is None:
            return self._skip(start, end, "ts_missing")
        count = run[0].count(b"{")
        self.ledger.seen += count
        self.ledger.skipped += count
        self.ledger.note("ts_missing", count)
        return run.end()

    def _skip(self, start: int, end: int, code: str) -> int:
        self.ledger.seen += 1
        self.ledger.skipped += 1
        self.ledger.note(code, where=(self.buffer.offset + start, end - start))
        if OTHER_HEADER.search(self.data, start, end):
            self.ledger.note("interleaved_writers")
        return end

    def _junk(self, at: int, commas: int) -> int:
        """Something that is not an object where an event should be: one skipped record."""
        if HOLE.match(self.data, at):
            following = self.bounds.next_record(at)
            self.ledger.leave(self.buffer.offset + at, following - at)
            return following
        end = self._other_value(at) if commas or self.after is After.START else None
        if self.data[at] == LIST and end is None and FIRST_RECORD.match(self.data, at):
            return self._stray(at)
        return self._skip(at, end or self.bounds.next_record(at), "event_unparsable")

    def _other_value(self, at: int) -> int | None:
        """The end of a list, a string, a number or a word that is one element of the list."""
        if self.data[at] == LIST:
            end = self._list(at)
        else:
            match = _SCALAR.match(self.data, at)
            end = match.end() if match else None
        if end is None:
            return None
        if len(self.data) - end < _LOOK and not self.bounds.last:
            raise Undecided
        return end if _IN_LIST.match(self.data, end, end + _LOOK) else None

    def _list(self, at: int) -> int | None:
        try:
            end = self.bounds.balanced(at)
        except Undecided:
            if len(self.data) - at > _LONG_LIST:
                return None
            raise
        return None if end is None or end - at > _LONG_LIST else end

    def _skip_huge(self) -> None:
        """Step over a record beyond the limit, to the next one, keeping little in memory."""
        start, self.at = self.buffer.offset + self.at, self.at + self.limits.event
        while True:
            match = BOUNDARY.search(self.data, self.at)
            if match is not None:
                self.at = match.start() + 1
                break
            if self.buffer.ended:
                self.at = len(self.data)
                break
            self.buffer.drop(max(len(self.data) - _LOOK, self.at))
            self.buffer.fill(_LOOK + CHUNK)
            self.at = 0
            self._look()
        self.ledger.seen += 1
        self.ledger.skipped += 1
        text = f"a record beyond {self.limits.event:,} bytes was skipped; {raised_by('event')}"
        where = start, self.buffer.offset + self.at - start
        self.ledger.note("limit_event", text=text, where=where)
