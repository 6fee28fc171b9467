"""One log file to records and messages, with a note of all that was not kept."""

from __future__ import annotations

import re

from foretrace.schema.ledger import LedgerBuilder
from foretrace.sources.bytestream import open_stream
from foretrace.sources.compiler.heads import head_of
from foretrace.sources.compiler.pieces import Piece, pieces
from foretrace.sources.compiler.records import LogRecord
from foretrace.sources.compiler.structured import (
    Strings,
    metadata_of,
    payload_of,
    record_of,
    sound,
    vouched,
)
from foretrace.sources.compiler.texts import Messages, plain
from foretrace.sources.limits import Limits


class LogFile:
    """Reads one file. Both kinds of log may lie in it."""

    def __init__(self, ledger: LedgerBuilder) -> None:
        self.ledger, self.strings, self.messages = ledger, Strings(), Messages()
        self.records: list[LogRecord] = []

    def read(self, path: str, limits: Limits) -> None:
        """All of it."""
        stream = open_stream(path, limits, self.ledger)
        for piece in pieces(stream.blocks, limits.event):
            self.take(piece)
        self.messages.finish()
        self.ledger.seen += len(self.messages.texts)
        self.ledger.note("log_string_missing", self.strings.missing)

    def take(self, piece: Piece) -> None:
        """One piece: a record, a line of a message, or somebody else's output."""
        line = plain(piece.data)
        if self.messages.more(line):
            return
        head = head_of(line)
        if head is None:
            if line.strip():
                self.ledger.note("log_lines_other", where=(piece.offset, piece.size))
        elif line.startswith(b'{"', head.end()):
            self.messages.finish()
            self.record(piece, head_of(piece.data) or head)
        else:
            self.messages.begin(line, head, piece.line)

    def record(self, piece: Piece, head: re.Match[bytes]) -> None:
        """A record of a structured log."""
        self.ledger.seen += 1
        text, fed, lines = piece.data[head.end() :].partition(b"\n")
        metadata = metadata_of(text)
        if metadata is None:
            return self.skip(piece, "log_record_unparsable")
        payload, pid = payload_of(lines) if fed else b"", int(head["pid"])
        if not vouched(payload, metadata.get("has_payload")):
            if not piece.ended or not fed or not sound(payload):
                return self.skip(piece, "log_payload_damaged")
            self.ledger.note("log_payload_changed", where=(piece.offset, piece.size))
        if "str" in metadata and self.strings.add(pid, metadata["str"]):
            return None
        self.records.append(record_of(metadata, payload, self.strings, pid, piece.line))
        return None

    def skip(self, piece: Piece, code: str) -> None:
        """Leave a record out, with a note."""
        self.ledger.skipped += 1
        self.ledger.note(code, where=(piece.offset, piece.size))
