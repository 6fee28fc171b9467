"""Lines of the log text, joined to messages."""

from __future__ import annotations

import re

from foretrace.sources.compiler.heads import rank_of
from foretrace.sources.compiler.records import TextRecord

_TAGS = re.compile(
    rb"(?:\[(?P<id>!?\d{1,9}(?:/\d{1,9}){0,2})(?:_(?P<attempt>\d{1,9}))?\] ?)?"
    rb"(?:\[__(?P<channel>\w{1,80})\] ?)?"
)
_COLOUR = re.compile(rb"\x1b\[[\d;]{0,32}m")


def plain(line: bytes) -> bytes:
    """The line without the codes that colour it in a terminal."""
    return _COLOUR.sub(b"", line) if b"\x1b" in line else line


class Messages:
    """Collects lines; those with one head are one message."""

    def __init__(self) -> None:
        self.texts: list[TextRecord] = []
        self.key, self.lines, self.first = b"", [b""], TextRecord("", "", "", 0, None)

    def more(self, line: bytes) -> bool:
        """Whether a line continues the message."""
        if not self.key or not line.startswith(self.key):
            return False
        self.lines.append(line[len(self.key) :])
        return True

    def begin(self, line: bytes, head: re.Match[bytes], number: int) -> None:
        """The first line of another message."""
        self.finish()
        tags = _TAGS.match(line, head.end())
        assert tags is not None  # both of its parts may be absent
        self.key, self.lines = line[: tags.end()], [line[tags.end() :]]
        self.first = TextRecord(
            (tags["channel"] or b"").decode(),
            (tags["id"] or b"").decode(),
            "",
            number,
            rank_of(line[: head.start()]),
            int(tags["attempt"] or 0),
            int(head["pid"]),
        )

    def finish(self) -> None:
        """Keep the message."""
        if self.key:
            text = b"\n".join(self.lines).decode("utf-8", "replace")
            first = self.first
            self.texts.append(
                TextRecord(
                    first.channel,
                    first.compile_id,
                    text,
                    first.line,
                    first.rank,
                    first.attempt,
                    first.pid,
                )
            )
        self.key, self.lines = b"", []
