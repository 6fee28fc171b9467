"""Bytes that were read but not yet understood."""

from __future__ import annotations

from collections.abc import Iterator

# large enough that per-chunk cost vanishes, small enough that its objects stay in cache
CHUNK = 256 << 10


class Buffer:
    """`data` starts at byte `offset` of the document; `ended`: no more bytes will come."""

    def __init__(self, blocks: Iterator[bytes], offset: int = 0) -> None:
        self.blocks, self.offset, self.data, self.ended = blocks, offset, b"", False

    def fill(self, size: int) -> None:
        """Hold at least `size` bytes, or all there are."""
        if len(self.data) >= size or self.ended:
            return
        pieces, held = [self.data], len(self.data)
        while held < size:
            block = next(self.blocks, None)
            if block is None:
                self.ended = True
                break
            pieces.append(block)
            held += len(block)
        self.data = b"".join(pieces)

    def drop(self, count: int) -> None:
        """Forget the first `count` bytes."""
        self.data = self.data[count:]
        self.offset += count
