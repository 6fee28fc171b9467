"""Reads a damaged stretch of events record by record: keeps what is complete, repairs what it can.

What it answers depends on the bytes of the document alone, never on how they were cut into chunks:
where the answer lies behind the bytes at hand, it asks for more. Every record is counted as kept,
repaired or skipped; bytes that belong to no record are noted as unread. No sound file comes here.

A sound record ends where its brackets are balanced. In damaged bytes the habit of the writer
counts: `},` and then `{` with a key that begins an event, or the end of the list. Such a place is a
*stop*. Each question is answered in one pass over the bytes of the record.

torch 2.13 writes `"name": "a"b",` for `record_function('a"b')`, so a string may hold quotes that
end nothing. A quote ends a string only where what follows is what this writer puts after a string:
the next known key, a closing bracket that fits, or the next element of a list. Every change is
reported; a record that still makes no sense raises `Unrepairable`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Struct

from foretrace.base.budget import Limits, raised_by
from foretrace.base.patterns import regex
from foretrace.read.kineto.records import (
    ARG_FIELDS,
    BOUNDARY,
    CHUNK,
    EVENT_KEYS,
    FIRST_FIELD,
    SUSPICIOUS,
    TOKEN,
    After,
    Buffer,
    Event,
    badly_escaped,
    coerce,
    decode_any_exact,
    exact_number,
    exact_times,
    repeats_length,
    sound_events,
)
from foretrace.read.ledger import PLACES, LedgerBuilder

FIRST_RECORD = regex(rb"\[[\s,]*+" + FIRST_FIELD)
# a record that begins where no value of another record can begin
_BEGINS = regex(rb"[:\[]\s*+\{|(" + FIRST_FIELD + rb")")
_TAIL_KEY = (
    rb'"(?:traceName|displayTimeUnit|baseTimeNanoseconds|schemaVersion|deviceProperties'
    rb'|distributedInfo|record_shapes|profile_memory|with_\w{1,9}|traceEvents)"\s*+:'
)
_STOPS = rb"\}\s*+(?:(?:,\s*+)?(?=" + FIRST_FIELD + rb")|(?=\]\s*+(?:,\s*+" + _TAIL_KEY + rb"%s)))"
_OTHER_LIST = rb'|"traceEvents"\s*+:\s*+\['
_STOP = regex(_STOPS % b"" + _OTHER_LIST)
_LAST_STOP = regex(_STOPS % rb"|(?:\}\s*+)?\Z" + _OTHER_LIST)
_LIST_END = regex(rb'\}\s*+(?=\]\s*+(?:,\s*+"|\}|\Z))')
HOLE = regex(rb"\0{4}")  # a block that was never written; one NUL may stand in a name
OTHER_HEADER = regex(rb'"(?:schemaVersion|traceEvents|deviceProperties)"\s*+:')
_BLANKS = regex(rb"\s*+")
OBJECT, CLOSED, LIST, LIST_CLOSED, QUOTE = b'{}[]"'
_CLOSES = {CLOSED: OBJECT, LIST_CLOSED: LIST}
_REAL_DEPTH = 8  # of records; public traces have 6
_LONG_BLANK = 64 << 10
_OPENING = b"{["
_AFTER_VALUE = b",{]/\0"  # a comment and a hole of zeros may follow, too


class Undecided(Exception):
    """The answer lies behind the bytes at hand."""


class _Next:
    """The next match of a pattern; asked in rising places, it reads the data once."""

    def __init__(self, pattern: re.Pattern[bytes], data: bytes) -> None:
        self.pattern, self.data = pattern, data
        self.asked = len(data) + 1
        self.found: re.Match[bytes] | None = None

    def match(self, at: int) -> re.Match[bytes] | None:
        """The first match that begins at `at` or behind it."""
        if self.asked > at or (self.found is not None and self.found.start() < at):
            self.asked, self.found = at, self.pattern.search(self.data, at)
        return self.found


class Patience:
    """How often a value is followed into depths, or into a list of records, that never end."""

    left = 64


class Bounds:
    """Ends of records in `data`. `last`: nothing follows; `piece`: a record follows."""

    def __init__(
        self, data: bytes, limits: Limits, patience: Patience, *, last: bool, piece: bool
    ) -> None:
        self.data, self.limits, self.last, self.piece = data, limits, last, piece
        self.patience = patience
        self.stops = _Next(_LAST_STOP if last else _STOP, data)
        self.list_ends, self.holes = _Next(_LIST_END, data), _Next(HOLE, data)

    def stop(self, at: int) -> int | None:
        """The end of the first record at or behind `at` that its writer closed."""
        match = self.stops.match(at)
        if match is None:
            return len(self.data) if self.piece else None
        return match.start() + 1 if match[0][:1] == b"}" else match.end()

    def hole(self, at: int, end: int) -> int | None:
        """Where a block of zeros begins before `end`."""
        match = self.holes.match(at)
        return match.start() if match is not None and match.start() < end else None

    def balanced(self, at: int) -> int | None:
        """The end of the value at `at`; None when its brackets or strings are broken."""
        open_, first, whole = bytearray(), self.stop(at) or 0, True
        stop = first or None
        for match in TOKEN.finditer(self.data, at):
            start, end = match.span()
            while stop is not None and stop < end:
                if start < stop or self._torn(open_, stop):
                    self.patience.left -= stop > first
                    return None
                stop = self.stop(stop)
            token = self.data[start]
            if token == QUOTE:
                whole = bool(match[1])
                if not whole:
                    break
            elif token in _OPENING:
                open_.append(token)
                if len(open_) > (self.limits.depth if self.patience.left > 0 else _REAL_DEPTH):
                    self.patience.left -= 1
                    return None
            elif not open_ or open_.pop() != _CLOSES[token]:
                return None
            elif not open_:
                return end
        more = stop == len(self.data) if self.piece else stop is None and not self.last
        if not more or (stop is not None and not whole):
            return None
        if stop is not None and self._torn(open_, stop):
            return None
        raise Undecided

    def _torn(self, open_: bytearray, stop: int) -> bool:
        """Whether no sound record can go on behind a stop: only a list holds further records."""
        if not self.patience.left > 0 or not open_ or open_[-1] != LIST:
            return True
        return self.data[stop - 1] == LIST and len(open_) == 2  # the list of another document

    def followed_well(self, end: int) -> bool:
        """Whether what follows a value may follow one."""
        at = _BLANKS.match(self.data, end).end()  # type: ignore[union-attr]
        if at == len(self.data):
            if self.last or self.piece or at - end > _LONG_BLANK:
                return True
            raise Undecided
        return self.data[at] in _AFTER_VALUE

    def end_of_damage(self, at: int) -> int:
        """Where reading goes on: the first stop, the end of the list, or the end of the data."""
        stop = self.stop(at)
        while stop is not None and self._in_header(at, stop):
            stop = self.stop(stop)
        if stop is not None:
            return stop
        if not self.last:
            raise Undecided
        match = self.list_ends.match(at)
        return match.start() + 1 if match is not None else len(self.data)

    def _in_header(self, at: int, stop: int) -> bool:
        """Whether the list that ends at `stop` is one of another writer's header."""
        closes = _BLANKS.match(self.data, stop)
        ended = closes is not None and self.data[closes.end() : closes.end() + 1] == b"]"
        return ended and OTHER_HEADER.search(self.data, at, stop) is not None

    def next_record(self, at: int) -> int:
        """Where a record begins or ends behind bytes that belong to none."""
        stop = self.stop(at)
        for match in _BEGINS.finditer(self.data, at, len(self.data) if stop is None else stop):
            if match[1]:
                return match.start(1)
        return self.end_of_damage(at)


_SPACE = regex(r"[ \t\r\n]*+")
_NUMBER = regex(r"-?(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][+-]?\d++)?(?=[\s,\]}]|$)", re.A)
# 007, 0x1f, +5, .5, 1.
_ODD_NUMBER = regex(
    r"[+-]?(?:0[xX][0-9a-fA-F]{1,15}|(?:\d++\.?|\.(?=\d))\d*+(?:[eE][+-]?\d++)?)(?=[\s,\]}]|$)",
    re.A,
)
_WORDS = {"true": True, "false": False, "null": None}
_NONFINITE = regex(r"-?(?:NaN|nan|Infinity|infinity|inf|Inf|N/A)(?=[\s,\]}]|$)")
_WORD = regex(r"true|false|null")
_PLAIN = regex(r'[^"\\\x00-\x1f]*+')
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_KEY = regex(r'"((?:[^"\\\n]|\\.){0,120}+)"[ \t\r\n]*+:')
_KNOWN = "|".join(map(re.escape, (*EVENT_KEYS.split(), *ARG_FIELDS, "Op count", "sort_index")))
_NEXT_KNOWN_KEY = regex(rf'"\s*+,\s*+"(?:{_KNOWN})"\s*+:')
NEXT_KEY = regex(r'"\s*+,\s*+"[^"\\\n]{1,80}+"\s*+:')
_CLOSES_OBJECT = regex(r'"\s*+\}\s*+(?:[,}\]]|$)')
_NEXT_ELEMENT = regex(r'"\s*+,\s*+(?:["\[{\d-]|true|false|null)')
_CLOSES_LIST = regex(r'"\s*+\]\s*+(?:[,}\]]|$)')
_CONTROL = regex(r"[\x00-\x1f]")
# group 1: a backslash that escapes nothing
_ESCAPE = regex(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|(\\)')
_SIMPLE_ESCAPE = regex(r'\\(["\\/bfnrt])')
_LONE = regex("[\ud800-\udfff]")
_UNICODE = regex(r"(?:\\u[0-9a-fA-F]{4})++")
# a string that holds such a key, or begins a record, is the head of one record and the tail of
# another; user text may hold the short names
_OWN = "|".join(map(re.escape, (key for key in ARG_FIELDS if " " in key)))
_TORN = regex(
    rf'"(?:ph|cat|pid|tid|ts|dur|args|correlation|{_OWN})"\s*+:|,\s*+\{{\s*+"(?:name|id|s|bp)"\s*+:'
)
BAD_BYTE = "�"


class Unrepairable(ValueError):
    """The record is beyond repair; `code` says which limit or fault it was."""

    def __init__(self, code: str = "event_unparsable") -> None:
        self.code = code
        super().__init__(code)


def text_of(record: bytes, ledger: LedgerBuilder) -> str:
    """UTF-8; a bad byte is U+FFFD and its two hex digits, so that two bad names stay different."""
    try:
        return record.decode()
    except UnicodeDecodeError:
        ledger.note("bad_utf8")
        text = record.decode(errors="surrogateescape")
        return "".join(
            BAD_BYTE + f"{ord(c) - 0xDC00:02x}" if 0xDC80 <= ord(c) <= 0xDCFF else c for c in text
        )


class Repaired(Struct, frozen=True):
    """A record's value, whether it had to be changed, and what was odd about it."""

    value: Any
    changed: bool
    oddities: dict[str, int]


def repair(record: bytes, limits: Limits) -> Repaired:
    """The value of `record`.

    Tried in turn: every quote ends its string (only numbers and control characters are odd); a
    quote ends a string of the event itself only before a key this format knows; before any key.
    """
    first = LedgerBuilder()
    text = text_of(record, first)
    for quotes in (None, _NEXT_KNOWN_KEY, NEXT_KEY):
        ledger = LedgerBuilder()
        ledger.merge(first)
        reader = Reader(text, limits, ledger, quotes)
        try:
            value, end = reader.value(0, 0, in_list=False)
            torn = reader.twice and (reader.requoted or reader.mended)
            if torn or reader.skip(end) != len(text):
                raise Unrepairable
        except Unrepairable as error:
            if error.code != "event_unparsable":
                raise
            continue
        ledger.note("control_char", reader.odd_controls)
        ledger.note("repaired_string", reader.requoted)
        return Repaired(value, reader.requoted or reader.mended, ledger.counts)
    raise Unrepairable


class Reader:
    """A recursive-descent reader over one record; depth is bounded, so recursion is safe."""

    def __init__(
        self,
        text: str,
        limits: Limits,
        ledger: LedgerBuilder,
        quotes: re.Pattern[str] | None,
        decimal: Callable[[str], float | Decimal] = exact_number,
    ) -> None:
        self.decimal = decimal
        self.text, self.limits, self.ledger, self.quotes = text, limits, ledger, quotes
        self.requoted = self.mended = self.odd_controls = False
        self.twice = False  # a key of the event itself was written twice
        self.reached = 0  # the furthest place that was looked at

    def skip(self, at: int) -> int:
        """The place after white space."""
        return _SPACE.match(self.text, at).end()  # type: ignore[union-attr]

    def value(self, at: int, depth: int, *, in_list: bool) -> tuple[Any, int]:
        """The value at `at`, and the place after it."""
        at = self.reached = self.skip(at)
        char = self.text[at : at + 1]
        if char in "{[" and char and depth >= self.limits.depth:
            raise Unrepairable("limit_depth")
        if char == "{":
            return self._object(at + 1, depth + 1)
        if char == "[":
            return self._array(at + 1, depth + 1)
        if char == '"':
            return self._string(at + 1, in_list=in_list, event_level=depth <= 1)
        if match := _NUMBER.match(self.text, at):
            return self._number(match[0]), match.end()
        if match := _NONFINITE.match(self.text, at):
            self.ledger.note("nonfinite")
            return None, match.end()
        if match := _WORD.match(self.text, at):
            return _WORDS[match[0]], match.end()
        if match := _ODD_NUMBER.match(self.text, at):
            self.mended = True
            self.ledger.note("number_repaired")
            return self._odd_number(match[0]), match.end()
        raise Unrepairable

    def _odd_number(self, text: str) -> int | float | Decimal | str:
        sign, digits = ("-" if text[0] == "-" else ""), text.lstrip("+-").lower()
        if digits.startswith("0x"):
            return int(sign + digits[2:], 16)
        if "." in digits or "e" in digits:
            return self.decimal(sign + digits)
        return self._number(sign + (digits.lstrip("0") or "0"))

    def _number(self, text: str) -> int | float | Decimal | str:
        if "." in text or "e" in text or "E" in text:
            return self.decimal(text)
        if len(text) > 18 and not -(1 << 63) <= (int(text) if len(text) < 40 else 1 << 64) < (
            1 << 64
        ):
            self.ledger.note("bigint")
            return text
        return int(text)

    def _object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        at = self.skip(at)
        if self.text[at : at + 1] == "}":
            return found, at + 1
        while True:
            key, at = self.key(self.skip(at))
            if key in found:
                self.ledger.note("dup_key")
                self.twice |= depth == 1
            found[key], at = self.value(at, depth, in_list=False)
            if key == "ph" and depth == 1 and self.requoted:  # torn: no phase holds a quote
                raise Unrepairable
            if len(found) > self.limits.args:
                raise Unrepairable("limit_args")
            at, ended = self._after_item(at, "}")
            if ended:
                return found, at

    def key(self, at: int) -> tuple[str, int]:
        """The key at `at`, and the place after its colon; a bad escape stays as it is."""
        match = _KEY.match(self.text, at)
        if match is None:
            raise Unrepairable
        self.odd_controls |= _CONTROL.search(match[1]) is not None
        self.requoted |= any(bad[1] for bad in _ESCAPE.finditer(match[1]))
        text = _UNICODE.sub(lambda written: self._unicode(written[0]), match[1])
        return _SIMPLE_ESCAPE.sub(lambda escape: _ESCAPES[escape[1]], text), match.end()

    def _array(self, at: int, depth: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        at = self.skip(at)
        if self.text[at : at + 1] == "]":
            return found, at + 1
        while True:
            item, at = self.value(at, depth, in_list=True)
            found.append(item)
            at, ended = self._after_item(at, "]")
            if ended:
                return found, at

    def _after_item(self, at: int, closing: str) -> tuple[int, bool]:
        """The place after the comma or the closing bracket, and whether it was the bracket."""
        at = self.skip(at)
        char = self.text[at : at + 1]
        if char not in (",", closing):
            raise Unrepairable
        if char == ",":
            following = self.skip(at + 1)
            if self.text[following : following + 1] == closing:
                self.mended = True
                self.ledger.note("trailing_comma")
                return following + 1, True
        return at + 1, char == closing

    def _string(self, at: int, *, in_list: bool, event_level: bool) -> tuple[str, int]:
        pieces: list[str] = []
        start = at
        while True:
            match = _PLAIN.match(self.text, at)
            assert match is not None
            pieces.append(match[0])
            at = self.reached = match.end()
            char = self.text[at : at + 1]
            if not char:
                raise Unrepairable
            if at - start > self.limits.string:
                raise Unrepairable("limit_string")
            if char == "\\":
                at = self._escape(at, pieces)
                continue
            if char != '"':
                self.odd_controls = True
            elif self._ends(at, in_list, event_level):
                if _TORN.search(self.text, start - 1, at):
                    raise Unrepairable
                return "".join(pieces), at + 1
            else:
                self.requoted = True
            pieces.append(char)
            at += 1

    def _escape(self, at: int, pieces: list[str]) -> int:
        """A bad escape (`\\x`) keeps its backslash and counts as repaired."""
        following = self.text[at + 1 : at + 2]
        if following in _ESCAPES and following:
            pieces.append(_ESCAPES[following])
            return at + 2
        if match := _UNICODE.match(self.text, at):
            pieces.append(self._unicode(match[0]))
            return match.end()
        self.requoted = True
        pieces.append("\\")
        return at + 1

    def _ends(self, at: int, in_list: bool, event_level: bool) -> bool:
        """Whether the quote at `at` ends its string, judged by what follows."""
        if self.quotes is None:
            return True
        if in_list:
            return bool(_NEXT_ELEMENT.match(self.text, at) or _CLOSES_LIST.match(self.text, at))
        follows = self.quotes if event_level else NEXT_KEY
        return bool(follows.match(self.text, at) or _CLOSES_OBJECT.match(self.text, at))

    def _unicode(self, written: str) -> str:
        """A run of `\\uXXXX`, surrogate pairs joined; a lone surrogate is not a character."""
        units = bytes.fromhex(written.replace("\\u", "")).decode("utf-16-be", "surrogatepass")
        lone = _LONE.findall(units)
        self.ledger.note("lone_surrogate", len(lone))
        return _LONE.sub(BAD_BYTE, units) if lone else units


_NEXT_LINE_KEY = regex(r'\n[ \t\r]*+"[^"\n]{1,120}+"\s*+:')
_ODD_BLANK = regex(r"[^ \t\r\n,]")
_END = regex(r"\}?\s*+\Z")
_EARLY_END = regex(r"\}\s*+,")
_BETWEEN = regex(r"[\s,]*+")


# failed attempts may look at the text so many times over
_TIMES = 2


def repair_header(header: bytes, limits: Limits, ledger: LedgerBuilder) -> dict[str, Any]:
    """The entries of an object of which some are no valid JSON, or which is cut off."""
    return _Entries(text_of(header, ledger), limits, ledger).read()


class _Entries:
    """Reads entry by entry; one bad entry never costs another."""

    def __init__(self, text: str, limits: Limits, ledger: LedgerBuilder) -> None:
        self.text, self.limits, self.ledger = text, limits, ledger
        self.patience = _TIMES * len(text)

    def read(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        at = self.text.find("{") + 1
        while True:
            between = _BETWEEN.match(self.text, at)
            assert between is not None
            self.ledger.note("control_char", _ODD_BLANK.search(between[0]) is not None)
            self.ledger.note("trailing_comma", between[0].count(",") - bool(found))
            at = between.end()
            reader = Reader(self.text, self.limits, self.ledger, None)
            try:
                key, at = reader.key(at)
            except Unrepairable:
                following = self._next_key(at)
                if following is None:
                    return found
                at = following
                continue
            self.ledger.note("control_char", reader.odd_controls)
            self.ledger.note("repaired_header", reader.requoted)
            found[key], at = self._entry(at)

    def _next_key(self, at: int) -> int | None:
        """Where to go on from a place where no key is; None at the end."""
        if _END.match(self.text, at):
            return None
        self.ledger.note("repaired_header")
        if self.text.startswith("}", at):
            early = _EARLY_END.match(self.text, at)
            return early.end() if early else None
        line = _NEXT_LINE_KEY.search(self.text, at)
        return line.start() if line else None

    def _entry(self, at: int) -> tuple[Any, int]:
        """One value: as JSON, as JSON with repaired quoting, or as raw text up to the next key."""
        for quotes in (None, NEXT_KEY):
            if self.patience <= 0:
                break
            scratch = LedgerBuilder()
            reader = Reader(self.text, self.limits, scratch, quotes, float)
            try:
                value, end = reader.value(at, 0, in_list=False)
            except Unrepairable:
                self.patience -= max(reader.reached - at, 1)
                continue
            following = reader.skip(end)
            if self.text[following : following + 1] in ("", ",", "}"):
                self.ledger.merge(scratch)
                self.ledger.note("control_char", reader.odd_controls)
                if quotes is not None or reader.requoted or reader.mended:
                    self.ledger.note("repaired_header")
                return value, end
            self.patience -= following - at
        self.ledger.note("repaired_header")
        match = _NEXT_LINE_KEY.search(self.text, at)
        end = match.start() if match else len(self.text)
        return self.text[at:end].strip().rstrip(",").rstrip(), end


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
