"""Reads one damaged record: unescaped quotes, control characters, NaN, numbers beyond 64 bits.

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

from foretrace.schema.ledger import LedgerBuilder
from foretrace.sources.kineto.records import ARG_FIELDS, EVENT_KEYS, exact_number
from foretrace.sources.limits import Limits

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?=[\s,\]}]|$)")
_WORDS = {"true": True, "false": False, "null": None}
_NONFINITE = re.compile(r"-?(?:NaN|nan|Infinity|infinity|inf|Inf|N/A)(?=[\s,\]}]|$)")
_WORD = re.compile(r"true|false|null")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_KEY = re.compile(r'"((?:[^"\\\n]|\\.){0,120})"\s*:')
_KNOWN = "|".join(map(re.escape, (*EVENT_KEYS.split(), *ARG_FIELDS, "Op count", "sort_index")))
_NEXT_KNOWN_KEY = re.compile(rf'"\s*,\s*"(?:{_KNOWN})"\s*:')
_NEXT_KEY = re.compile(r'"\s*,\s*"[^"\\\n]{1,80}"\s*:')
_CLOSES_OBJECT = re.compile(r'"\s*\}\s*(?:[,}\]]|$)')
_NEXT_ELEMENT = re.compile(r'"\s*,\s*(?:["\[{\d-]|true|false|null)')
_CLOSES_LIST = re.compile(r'"\s*\]\s*(?:[,}\]]|$)')
_CONTROL = re.compile(r"[\x00-\x1f]")
# group 1: a backslash that escapes nothing
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|(\\)')
_UNICODE = re.compile(r"(?:\\u[0-9a-fA-F]{4})+")
_NEXT_LINE_KEY = re.compile(r',?\s*\n\s*"[^"\n]{1,120}"\s*:')
_SEPARATORS = re.compile(r"[\s,]*")
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


def repair(
    record: bytes, limits: Limits, ledger: LedgerBuilder, exact: bool = False
) -> tuple[Any, bool]:
    """The value of `record` and whether its quoting had to be repaired.

    Tried in turn: every quote ends its string (only numbers and control characters are odd); a
    quote ends a string of the event itself only before a key this format knows; before any key.
    """
    scratch = LedgerBuilder()
    text = text_of(record, scratch)
    for quotes in (None, _NEXT_KNOWN_KEY, _NEXT_KEY):
        attempt = LedgerBuilder()
        reader = Reader(text, limits, attempt, quotes, exact)
        try:
            value, end = reader.value(0, 0, in_list=False)
            if reader.skip(end) != len(text):
                raise Unrepairable
        except Unrepairable as error:
            if error.code != "event_unparsable":
                raise
            continue
        if reader.odd_controls:
            attempt.note("control_char")
        ledger.merge(scratch)
        ledger.merge(attempt)
        return value, reader.repaired
    raise Unrepairable


class Reader:
    """A recursive-descent reader over one record; depth is bounded, so recursion is safe."""

    def __init__(
        self,
        text: str,
        limits: Limits,
        ledger: LedgerBuilder,
        quotes: re.Pattern[str] | None,
        exact: bool = False,
    ) -> None:
        self.decimal: Callable[[str], float | Decimal] = exact_number if exact else float
        self.text, self.limits, self.ledger, self.quotes = text, limits, ledger, quotes
        self.repaired = self.odd_controls = False

    def skip(self, at: int) -> int:
        """The place after white space."""
        return _SPACE.match(self.text, at).end()  # type: ignore[union-attr]

    def value(self, at: int, depth: int, *, in_list: bool) -> tuple[Any, int]:
        """The value at `at`, and the place after it."""
        at = self.skip(at)
        char = self.text[at : at + 1]
        if char in "{[" and char and depth >= self.limits.depth:
            raise Unrepairable("limit_depth")
        if char == "{":
            return self._object(at + 1, depth + 1)
        if char == "[":
            return self._array(at + 1, depth + 1)
        if char == '"':
            return self._string(at + 1, in_list=in_list, event_level=depth <= 1)
        return self._atom(at)

    def _atom(self, at: int) -> tuple[Any, int]:
        if match := _NUMBER.match(self.text, at):
            return self._number(match[0]), match.end()
        if match := _NONFINITE.match(self.text, at):
            self.ledger.note("nonfinite")
            return None, match.end()
        if match := _WORD.match(self.text, at):
            return _WORDS[match[0]], match.end()
        raise Unrepairable

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
            match = _KEY.match(self.text, self.skip(at))
            if match is None:
                raise Unrepairable
            key = _unescape(match[1])
            self.odd_controls |= _CONTROL.search(match[1]) is not None
            self.repaired |= any(bad[1] for bad in _ESCAPE.finditer(match[1]))
            if key in found:
                self.ledger.note("dup_key")
            found[key], at = self.value(match.end(), depth, in_list=False)
            if len(found) > self.limits.args:
                raise Unrepairable("limit_args")
            at, ended = self._after_item(at, "}")
            if ended:
                return found, at

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
        return at + 1, char == closing

    def _string(self, at: int, *, in_list: bool, event_level: bool) -> tuple[str, int]:
        pieces: list[str] = []
        start = at
        while True:
            match = _PLAIN.match(self.text, at)
            assert match is not None
            pieces.append(match[0])
            at = match.end()
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
                return "".join(pieces), at + 1
            else:
                self.repaired = True
            pieces.append(char)
            at += 1

    def _escape(self, at: int, pieces: list[str]) -> int:
        """A bad escape (`\\x`) keeps its backslash and counts as repaired."""
        following = self.text[at + 1 : at + 2]
        if following in _ESCAPES and following:
            pieces.append(_ESCAPES[following])
            return at + 2
        if match := _UNICODE.match(self.text, at):
            pieces.append(_unicode(match))
            return match.end()
        self.repaired = True
        pieces.append("\\")
        return at + 1

    def _ends(self, at: int, in_list: bool, event_level: bool) -> bool:
        """Whether the quote at `at` ends its string, judged by what follows."""
        if self.quotes is None:
            return True
        if in_list:
            return bool(_NEXT_ELEMENT.match(self.text, at) or _CLOSES_LIST.match(self.text, at))
        follows = self.quotes if event_level else _NEXT_KEY
        return bool(follows.match(self.text, at) or _CLOSES_OBJECT.match(self.text, at))


def _unescape(text: str) -> str:
    """A key with its escapes resolved; bad ones stay as they are."""
    if "\\" not in text:
        return text
    text = _UNICODE.sub(_unicode, text)
    return re.sub(r"\\([\"\\/bfnrt])", lambda match: _ESCAPES[match[1]], text)


def _unicode(match: re.Match[str]) -> str:
    """A run of `\\uXXXX`, surrogate pairs joined; a lone surrogate is not a character."""
    units = bytes.fromhex(match[0].replace("\\u", ""))
    return units.decode("utf-16-be", errors="replace")


def repair_header(header: bytes, limits: Limits, ledger: LedgerBuilder) -> dict[str, Any]:
    """The entries of an object of which some are no valid JSON, or which is cut off."""
    text = text_of(header, ledger)
    found: dict[str, Any] = {}
    at = text.find("{") + 1
    while True:
        at = _SEPARATORS.match(text, at).end()  # type: ignore[union-attr]
        key = _KEY.match(text, at)
        if key is None:
            if text[at : at + 1] not in ("", "}"):
                ledger.note("repaired_header")
            return found
        found[key[1]], at = _header_entry(text, key.end(), limits, ledger)


def _header_entry(text: str, at: int, limits: Limits, ledger: LedgerBuilder) -> tuple[Any, int]:
    """One value: as JSON, as JSON with repaired quoting, or as the raw text up to the next key."""
    for quotes in (None, _NEXT_KEY):
        scratch = LedgerBuilder()
        reader = Reader(text, limits, scratch, quotes)
        try:
            value, end = reader.value(at, 0, in_list=False)
        except Unrepairable:
            continue
        following = text[reader.skip(end) : reader.skip(end) + 1]
        if following in ("", ",", "}"):
            ledger.merge(scratch)
            if quotes is not None or reader.repaired:
                ledger.note("repaired_header")
            return value, end
    ledger.note("repaired_header")
    match = _NEXT_LINE_KEY.search(text, at)
    end = match.start() if match else len(text)
    return text[at:end].strip(), end
