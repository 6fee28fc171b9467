"""Lines of the log text, joined to messages."""

from __future__ import annotations

import re

from msgspec.structs import replace

from foretrace.read.compiler.heads import pid_of, rank_of
from foretrace.read.compiler.records import TextRecord
from foretrace.schema.ledger import LedgerBuilder

_TAGS = re.compile(
    rb"(?:\[(?P<id>!?\d{1,9}(?:/\d{1,9}){0,2})(?:_(?P<attempt>\d{1,9}))?\](?: |$))?"
    rb"(?:\[__(?P<channel>\w{1,80})\](?: |$))?"
)
_COLOR = re.compile(rb"\x1b\[[\d;]{0,32}m")
_NONE = TextRecord("", "", "", 0, None)


def uncolored(line: bytes) -> bytes:
    """The line without the codes that color it in a terminal."""
    return _COLOR.sub(b"", line) if b"\x1b" in line else line


def tagged(line: bytes, head: re.Match[bytes]) -> bool:
    """Whether a compile id or the name of a channel follows the head."""
    return _tags_end(line, head.end()) > head.end()


def _tags_end(line: bytes, start: int) -> int:
    found = _TAGS.match(line, start)
    return found.end() if found else start


class Messages:
    """Collects lines; those with one head are one message."""

    def __init__(self, ledger: LedgerBuilder) -> None:
        self.texts: list[TextRecord] = []
        self.ledger = ledger
        self.first, self.key, self.lines = _NONE, b"", [b""]
        self.untagged = False

    def more(self, line: bytes) -> bool:
        """Take a line that continues the message; False when it does not."""
        if not self.key or not (line.startswith(self.key) or line == self.key[:-1]):
            return False
        if self.untagged and _tags_end(line, len(self.key)) > len(self.key):
            return False
        self.lines.append(line[len(self.key) :])
        return True

    def begin(self, line: bytes, head: re.Match[bytes], number: int) -> None:
        """The first line of another message."""
        self.finish()
        self.ledger.seen += 1
        tags = _TAGS.match(line, head.end())
        assert tags is not None  # it may be empty
        self.untagged = tags.end() == tags.start()
        # an editor may have taken the blank before an empty text away
        self.key, self.lines = line[: tags.end()].rstrip() + b" ", [line[tags.end() :]]
        self.first = TextRecord(
            channel=(tags["channel"] or b"").decode(),
            compile_id=(tags["id"] or b"").decode(),
            text="",
            line=number,
            rank=rank_of(line[: head.start()]),
            attempt=int(tags["attempt"] or 0),
            pid=pid_of(head),
        )

    def cut(self) -> None:
        """Leave the last line out: the file ends inside of it."""
        self.lines.pop()
        self.ledger.note("log_truncated")
        if self.lines:
            self.ledger.repaired += 1
        else:
            self.ledger.skipped += 1
            self.key = b""

    def finish(self) -> None:
        """Keep the message."""
        if self.key:
            whole = b"\n".join(self.lines)
            text = whole.decode("utf-8", "replace")
            if "\ufffd" in text and "\ufffd".encode() not in whole:
                self.ledger.note("bad_utf8")
            self.texts.append(replace(self.first, text=text))
        self.key = b""
