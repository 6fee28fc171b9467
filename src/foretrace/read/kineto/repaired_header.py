"""Header entries that are no valid JSON: repaired when that is safe, kept as raw text otherwise."""

from __future__ import annotations

import re
from typing import Any

from foretrace.read.kineto.repair import NEXT_KEY, Reader, Unrepairable, text_of
from foretrace.read.limits import Limits
from foretrace.schema.ledger import LedgerBuilder

_NEXT_LINE_KEY = re.compile(r'\n[ \t\r]*+"[^"\n]{1,120}+"\s*+:')
_ODD_BLANK = re.compile(r"[^ \t\r\n,]")
_END = re.compile(r"\}?\s*+\Z")
_EARLY_END = re.compile(r"\}\s*+,")
_SEPARATORS = re.compile(r"[\s,]*+")


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
