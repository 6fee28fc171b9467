"""Reads one damaged record: unescaped quotes, control characters, NaN, numbers beyond 64 bits, and
numbers and commas that JSON does not know.

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

from msgspec import Struct

from foretrace.base.budget import Limits
from foretrace.base.patterns import regex
from foretrace.read.kineto.records import ARG_FIELDS, EVENT_KEYS, exact_number
from foretrace.read.ledger import LedgerBuilder

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
_SEPARATORS = regex(r"[\s,]*+")


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
            between = _SEPARATORS.match(self.text, at)
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
