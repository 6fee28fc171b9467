"""One log file to records and messages, with a note of all that was not kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from foretrace.base.budget import Limits
from foretrace.read.bytestream import Watch, open_stream
from foretrace.read.compiler import structured
from foretrace.read.compiler.heads import HEAD, RECORD_HEAD, pid_of
from foretrace.read.compiler.pieces import Cutter, Piece
from foretrace.read.compiler.records import LogRecord
from foretrace.read.compiler.strings import Strings
from foretrace.read.compiler.texts import Messages, tagged, uncolored
from foretrace.schema.ledger import LedgerBuilder

_SHOWN = 5  # unknown kinds, by name
_REMAINS = re.compile(rb'\] \{"|\.py:\d{1,9}\]? ?\{')  # of a head


class Suspect(Struct):
    """A record whose payload does not match its digest, and the lines without a head after it."""

    piece: Piece
    metadata: dict[str, Any]
    below: bytes
    pid: int
    strays: list[Piece] = field(default_factory=list)


class LogFile:
    """Reads one file. Records and messages may both lie in it."""

    def __init__(self, ledger: LedgerBuilder, limits: Limits) -> None:
        self.ledger, self.limits, self.messages = ledger, limits, Messages(ledger)
        self.records: list[LogRecord] = []
        self.strings = Strings()
        self.suspect: Suspect | None = None
        self.unknown: dict[str, int] = {}  # kinds
        self.structured = False  # whether a record was seen
        self.torn = False  # whether the last record was lost: lines that follow may be its own

    def read(self, path: str, watch: Watch) -> None:
        """All of it, or as much as the limits allow."""
        self.read_blocks(open_stream(path, self.limits, self.ledger, watch).blocks)

    def read_blocks(self, blocks: Iterator[bytes]) -> None:
        """The content of a file, in blocks of any size."""
        piece = None
        for piece in Cutter(self.limits.event).pieces(blocks):
            if self.ledger.seen >= self.limits.events:
                self.ledger.note("limit_events")
                break
            self._take(piece)
        if piece and not piece.ended and self.messages.key:
            self.messages.cut()
        self.messages.finish()
        self._settle(alone=False)
        self.ledger.note("log_string_missing", self.strings.missing)
        names = ", ".join(sorted(self.unknown)[:_SHOWN])
        text = f"records of kinds that this version does not know: {names}"
        self.ledger.note("log_kind_unknown", sum(self.unknown.values()), text)

    def _take(self, piece: Piece) -> None:
        """One piece: a record, a line of a message, or the output of another program."""
        if piece.size > len(piece.data):
            return self._lose(piece, "limit_event")
        first = piece.data[: piece.eol]
        line = uncolored(first).removesuffix(b"\r")
        if self.messages.more(line):
            return None
        head = HEAD.match(line) or HEAD.search(line)
        if head is None:
            return self._stray(piece, line)
        self.messages.finish()
        self._settle(alone=True)
        if line.startswith(b"{", head.end()) and self._holds_records(line[head.end() :]):
            whole = piece if line == first else replace(piece, data=line + piece.data[len(first) :])
            self._record(whole, head)
        elif self.structured and not tagged(line, head):
            self._lose(piece, "log_record_unparsable")
        else:
            self.messages.begin(line, head, piece.line)
        return None

    def _holds_records(self, text: bytes) -> bool:
        """Whether this is a structured log: a message may begin with a brace, too."""
        if not self.structured:
            found = structured.metadata_of(text) or {}
            self.structured = not structured.KNOWN.isdisjoint(found)
        return self.structured

    def _record(self, piece: Piece, head: re.Match[bytes]) -> None:
        """A record of a structured log, or several if the line feeds between them are damaged."""
        below = piece.data[piece.eol + 1 :]
        metadata = structured.metadata_of(piece.data[head.end() : piece.eol])
        digest = (metadata or {}).get("has_payload")
        payload = structured.vouched(structured.payload_of(below), digest)
        if metadata is not None and payload is not None:
            return self._keep(piece, metadata, payload, pid_of(head))
        inside = [found.start() for found in RECORD_HEAD.finditer(piece.data, head.end())]
        if inside or metadata is None:
            torn, *others = piece.cut(inside)
            self._lose(torn, "log_record_unparsable")
            for other in others:
                self._take(other)
        else:
            self.suspect = Suspect(piece, metadata, below, pid_of(head))
        return None

    def _stray(self, piece: Piece, line: bytes) -> None:
        """Lines without a head: what is left of a record, or what another program wrote."""
        if self.structured and _REMAINS.search(line):
            self._settle(alone=True)
            self._lose(piece, "log_record_unparsable")
        elif self.suspect:
            self.suspect.strays.append(piece)
        elif self.structured and not self.torn and (b"\n\t" in piece.data or not piece.ended):
            self._lose(piece, "log_record_unparsable")
        elif line.strip():
            self.ledger.note("log_lines_other", where=piece.where)

    def _settle(self, *, alone: bool) -> None:
        """Decide about a suspect once its end is known; `alone`: another record follows."""
        suspect, self.suspect = self.suspect, None
        if suspect is None:
            return None
        strays = suspect.strays
        below = [suspect.below, *(piece.data[piece.eol + 1 :] for piece in strays)]
        joined = structured.payload_of(b"\n".join(filter(None, below)))
        payload = structured.vouched(joined, suspect.metadata.get("has_payload"))
        if payload is None:
            payload = structured.payload_of(suspect.below)
            # an editor that takes white space away explains a difference, at the end as well
            alone |= suspect.piece.ended and b"\n\n" in suspect.below
            if not suspect.below or not structured.sound(payload, alone=alone and not strays):
                return self._lose(suspect.piece, "log_payload_damaged")
            self.ledger.note("log_payload_changed", where=suspect.piece.where)
        self.ledger.note("log_lines_other", len(strays), where=strays[0].where if strays else None)
        return self._keep(suspect.piece, suspect.metadata, payload, suspect.pid)

    def _keep(self, piece: Piece, metadata: dict[str, Any], payload: bytes, pid: int) -> None:
        try:
            record = structured.record_of(metadata, payload, self.strings, pid, piece.line)
        except RecursionError:
            return self._lose(piece, "limit_depth")
        if record.kind == "str":
            if not self.strings.add(pid, metadata["str"]):
                return self._lose(piece, "log_record_unparsable")
        else:
            self.records.append(record)
        self.torn = False
        self.ledger.seen += 1
        if record.kind not in structured.KINDS:
            self.unknown[record.kind] = self.unknown.get(record.kind, 0) + 1
        return None

    def _lose(self, piece: Piece, code: str) -> None:
        """Leave a record out, with a note."""
        self.ledger.seen += 1
        self.ledger.skipped += 1
        self.torn = True
        self.ledger.note(code, where=piece.where)
