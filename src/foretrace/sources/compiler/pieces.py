"""From blocks of bytes to pieces: a line, and the lines below it that begin with a tab.

A record of a structured log is one piece, since torch writes a tab before each line of a payload.
A line of the log text is a piece as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

_ENDS = re.compile(rb"\n(?!\t)")


class Piece(Struct, gc=False):
    """`data` without its last line feed; `line` and `offset` say where it begins.

    `size` is more than there is data where the piece was too large to hold.
    """

    data: bytes
    line: int
    offset: int
    size: int
    ended: bool = True  # by a line feed


def pieces(blocks: Iterator[bytes], largest: int) -> Iterator[Piece]:
    """Cut a stream; nothing larger than `largest` is held."""
    held, size, line, offset = [b""], 0, 1, 0
    feed = b""  # the last line feed of a block: what follows says whether it ends a piece
    lines = 0

    def finished(ended: bool) -> Piece:
        nonlocal held, size, line, offset, lines
        piece = Piece(b"".join(held), line, offset, size, ended)
        line, offset = line + lines + 1, offset + size + 1
        held, size, lines = [], 0, 0
        return piece

    def hold(part: bytes) -> None:
        nonlocal size, lines
        size, lines = size + len(part), lines + part.count(b"\n")
        if size <= largest:
            held.append(part)

    for block in blocks:
        block, start = feed + block, 0
        feed = b"\n" if block.endswith(b"\n") else b""
        block = block[: len(block) - len(feed)]
        for end in _ENDS.finditer(block):
            hold(block[start : end.start()])
            yield finished(True)
            start = end.end()
        hold(block[start:])
    if size or feed:
        yield finished(bool(feed))
