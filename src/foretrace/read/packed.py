"""Packed bytes as they are used up: the feed of every container, its ratio, and deflate."""

from __future__ import annotations

import re
import zlib
from collections.abc import Generator, Iterator
from typing import IO, Any

from msgspec import Struct

from foretrace.base.errors import LimitError, TraceError
from foretrace.read import budget
from foretrace.read.limits import RATIO_FREE_BYTES, Limits, raised_by

BLOCK = 256 << 10  # packed or not: decoding blocks of 2 MiB took 13% longer (Neoverse-N1)
FIRST_BITE = 512  # a decoder copies what it leaves of a bite: small members get small ones


def blocks(handle: IO[bytes], label: str) -> Iterator[bytes]:
    """The rest of a file."""
    while True:
        try:
            with budget.waiting():
                block = handle.read(BLOCK)
        except OSError as error:
            raise unreadable(label, error, "copy the file again") from None
        if not block:
            return
        budget.check()  # a container may take many blocks to give nothing
        yield block


def unreadable(path: str, error: Exception, hint: str) -> TraceError:
    """What the operating system refused to give."""
    what = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    return TraceError("E_UNREADABLE", path, what, hint=hint)


class Ratio:
    """Stops a decompression bomb: far more comes out than went in."""

    def __init__(self, label: str, limits: Limits) -> None:
        self.label, self.limit, self.taken, self.given = label, limits.ratio, 0, 0

    def add(self, given: int) -> None:
        """Count output; raises `LimitError` when it is too much for the input."""
        self.given += given
        if self.given > RATIO_FREE_BYTES and self.given > self.limit * max(self.taken, 1):
            what, hint = f"expands more than {self.limit}:1", raised_by("ratio")
            hint = f"if you trust it, {hint}"
            raise LimitError("E_BOMB", self.label, what, offset=self.taken, hint=hint)


class Feed:
    """Packed bytes that were not used yet, in `block` from `at` on; more come when needed."""

    def __init__(self, raw: Iterator[bytes], ratio: Ratio) -> None:
        self.raw, self.ratio, self.block, self.at = raw, ratio, b"", 0

    @property
    def offset(self) -> int:
        """Where in the packed stream the next byte is."""
        return self.ratio.taken - len(self.block) + self.at

    def holds(self, size: int) -> bool:
        """Whether `size` more bytes are there; `size` is small, as what is left is copied."""
        while len(self.block) - self.at < size:
            more = next(self.raw, b"")
            if not more:
                return False
            self.ratio.taken += len(more)
            self.block, self.at = self.block[self.at :] + more, 0
        return True

    def bite(self, size: int) -> memoryview:
        """Use up to `size` bytes, none at the end; those left over go back with `at`."""
        self.holds(1)
        bite = memoryview(self.block)[self.at : self.at + size]
        self.at += len(bite)
        return bite

    def take(self, size: int) -> bytes:
        """Use `size` bytes, or as many as there are; `size` is small."""
        self.holds(size)
        taken = self.block[self.at : self.at + size]
        self.at += len(taken)
        return taken

    def starts(self, magic: bytes) -> bool:
        """Whether these bytes come next."""
        return self.holds(len(magic)) and self.block.startswith(magic, self.at)

    def skip(self, size: int) -> None:
        """Step over `size` bytes."""
        while size > 0 and (bite := self.bite(size)):
            size -= len(bite)

    def skip_past(self, mark: bytes) -> None:
        """Step over the first byte that equals `mark`."""
        while self.holds(1):
            found = self.block.find(mark, self.at)
            self.at = found + 1 or len(self.block)
            if found >= 0:
                return

    def seek(self, pattern: re.Pattern[bytes], length: int) -> tuple[bool, int]:
        """Move to the next match, which has `length` bytes, or to the end.

        Says whether there was one, and how many bytes other than padding lie before it.
        """
        junk = 0
        while True:
            match = pattern.search(self.block, self.at)
            here = match.start() if match else max(self.at, len(self.block) - length + 1)
            junk += len(self.block[self.at : here].strip(b"\0"))
            self.at = here
            if match or not self.holds(length):
                junk += 0 if match else len(self.take(length).strip(b"\0"))
                return match is not None, junk


class Inflated(Struct):
    """How one deflate stream ended: `cut` at the end of the input, or damaged with an `error`.

    `at` is where the damage is, as near as it is known; `agrees` whether the checksum does.
    """

    crc: int = 0
    size: int = 0
    cut: bool = False
    error: str = ""
    at: int = 0
    agrees: bool = True

    def add(self, out: bytes) -> bytes:
        """Count one piece of output, and pass it on."""
        self.crc, self.size = zlib.crc32(out, self.crc), self.size + len(out)
        return out


def inflate(feed: Feed) -> Generator[bytes, None, Inflated]:
    """One deflate stream. All output before damage is given; the feed then stands before it."""
    state, found, size = zlib.decompressobj(-15), Inflated(), FIRST_BITE
    before = None
    while not state.eof:
        bite = feed.bite(size)
        try:
            out = state.decompress(bite, BLOCK) if bite else state.flush()
        except zlib.error as error:
            feed.at -= len(bite)
            found.error, found.at = str(error), feed.offset
            out = _until_damage(before or zlib.decompressobj(-15), bite)
        found.add(out)
        feed.ratio.add(len(out))
        if out:
            yield out
        if found.error:
            return found
        if not bite:
            found.cut = not state.eof
            return found
        left = len(state.unused_data) or len(state.unconsumed_tail)
        feed.at -= left
        before = None if state.eof else state.copy()
        size = min(4 * size, BLOCK) if not left else max(2 * (len(bite) - left), FIRST_BITE)
    return found


def _until_damage(state: Any, data: bytes | memoryview) -> bytes:
    """What a bite gives before its damage: zlib drops the output of a call that fails.

    Halving the request finds the last byte in 19 calls.
    """
    pieces = []
    for most in (*(BLOCK >> half for half in range(1, BLOCK.bit_length())), 1):
        trial = state.copy()
        try:
            pieces.append(trial.decompress(data, most))
        except zlib.error:
            continue
        state, data = trial, trial.unconsumed_tail
    return b"".join(pieces)
