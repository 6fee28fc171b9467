"""From blocks of bytes to pieces: a line, and the lines below it that begin with a tab.

A record of a structured log is one piece, since torch writes a tab before each line of a payload.
Empty lines belong to the piece above them: editors take a tab away that stands alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

_ENDS = re.compile(rb"\n(?=[^\t\n])")


class Piece(Struct, frozen=True, gc=False):
    """`data` is without its last line feed; `line` and `offset` say where it begins."""

    data: bytes
    line: int
    offset: int
    size: int  # more than there is data where the piece is too large to hold
    ended: bool = True  # by a line feed

    @property
    def eol(self) -> int:
        """Where its first line ends."""
        return len(self.data) if (found := self.data.find(b"\n")) < 0 else found

    @property
    def where(self) -> tuple[int, int]:
        """Its place for the ledger."""
        return self.offset, self.size

    def cut(self, places: list[int]) -> list[Piece]:
        """Several pieces; each after the first begins at one of the places."""
        starts, ends = [0, *places], [*places, len(self.data)]
        found, line = [], self.line
        for start, end in zip(starts, ends, strict=True):
            data = self.data[start:end]
            ended = self.ended and end == len(self.data)
            found.append(Piece(data, line, self.offset + start, len(data), ended))
            line += data.count(b"\n")
        return found


class Cutter:
    """Cuts a stream into pieces; of one that is larger than `largest`, only the size is kept."""

    def __init__(self, largest: int) -> None:
        self.largest, self.line, self.offset = largest, 1, 0
        self.held: list[bytes] = []
        self.size = self.lines = 0

    def pieces(self, blocks: Iterator[bytes]) -> Iterator[Piece]:
        """All pieces; each block is searched once, however long a piece is."""
        feed = b""  # the last of a block: what follows says whether it ends a piece
        for block in blocks:
            text, start = feed + block, 0
            feed = b"\n" if text.endswith(b"\n") else b""
            text = text.removesuffix(b"\n")
            for end in _ENDS.finditer(text):
                self._hold(text[start : end.start()])
                yield self._finished(ended=True)
                start = end.end()
            self._hold(text[start:])
        if self.size or feed:
            yield self._finished(ended=bool(feed))

    def _hold(self, part: bytes) -> None:
        self.size, self.lines = self.size + len(part), self.lines + part.count(b"\n")
        if self.size <= self.largest:
            self.held.append(part)
        else:
            self.held.clear()

    def _finished(self, *, ended: bool) -> Piece:
        piece = Piece(b"".join(self.held), self.line, self.offset, self.size, ended)
        self.line, self.offset = self.line + self.lines + 1, self.offset + self.size + 1
        self.held, self.size, self.lines = [], 0, 0
        return piece
