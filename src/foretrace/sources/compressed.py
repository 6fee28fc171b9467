"""gzip and zstd streams. A damaged end keeps what came before it, with a note."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Generator, Iterator
from typing import Any

from foretrace.errors import LimitError, TraceError
from foretrace.schema.ledger import LedgerBuilder
from foretrace.sources.limits import RATIO_FREE_BYTES, Limits, raised_by

BLOCK = 256 << 10  # packed or not: decoding blocks of 2 MiB took 13% longer (Neoverse-N1)
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


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


def gunzip(
    raw: Iterator[bytes], label: str, limits: Limits, ledger: LedgerBuilder
) -> Iterator[bytes]:
    """All members of a gzip file; a damaged end keeps what came before it."""
    ratio = Ratio(label, limits)
    feed = _Feed(raw, ratio)
    while feed.starts_with_member():
        done = yield from _member(feed, label, ledger, ratio)
        if not done:
            return
    if feed.held.strip(b"\0"):
        at = ratio.taken - len(feed.held)
        text = f"bytes after the gzip stream (at byte {at:,}) were ignored"
        ledger.note("gzip_trailing", text=text)


class _Feed:
    """Compressed bytes not used yet, with more to come."""

    def __init__(self, raw: Iterator[bytes], ratio: Ratio) -> None:
        self.raw, self.ratio, self.held = raw, ratio, b""

    def more(self) -> bool:
        block = next(self.raw, b"")
        self.ratio.taken += len(block)
        self.held += block
        return bool(block)

    def starts_with_member(self) -> bool:
        while len(self.held) < 2 and self.more():
            pass
        return self.held.startswith(GZIP)


def _member(
    feed: _Feed, label: str, ledger: LedgerBuilder, ratio: Ratio
) -> Generator[bytes, None, bool]:
    """One member. The checksum is computed here: zlib drops its last output when it is wrong."""
    header = _header_size(feed)
    inflate, crc, size, started = zlib.decompressobj(-15), 0, 0, False
    feed.held = feed.held[header:]
    while not inflate.eof:
        if not feed.held and not feed.more():
            ledger.note("gzip_truncated")
            return False
        before = inflate.copy()
        try:
            out = inflate.decompress(feed.held, BLOCK)
        except zlib.error as error:
            out = _until_damage(before, feed.held)
            if out:
                yield out
            _gzip_damage(error, feed, label, ledger, started or bool(out))
            return False
        started = started or bool(out)
        crc, size = zlib.crc32(out, crc), size + len(out)
        ratio.add(len(out))
        if out:
            yield out
        feed.held = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
    while len(feed.held) < 8 and feed.more():
        pass
    trailer, feed.held = feed.held[:8], feed.held[8:]
    if len(trailer) < 8:
        ledger.note("gzip_truncated", text="the gzip stream lacks its checksum")
    elif trailer != crc.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little"):
        ledger.note("gzip_crc")
    return True


def _header_size(feed: _Feed) -> int:
    """Length of a member's header; its file name is skipped unread."""
    while len(feed.held) < 64 << 10 and feed.more():
        pass
    data = feed.held
    flags, at = data[3] if len(data) > 3 else 0, 10
    if flags & 4:
        at += 2 + int.from_bytes(data[at : at + 2], "little")
    for flag in (8, 16):
        if flags & flag:
            at = data.find(b"\0", at) + 1 or len(data)
    return at + (2 if flags & 2 else 0)


def _until_damage(inflate: Any, data: bytes) -> bytes:
    """The output of a block up to its damage, decoded in small bites."""
    pieces = []
    try:
        for at in range(0, len(data), 64):
            pieces.append(inflate.decompress(data[at : at + 64]))
    except zlib.error:
        pass
    return b"".join(pieces)


def _gzip_damage(
    error: zlib.error, feed: _Feed, label: str, ledger: LedgerBuilder, started: bool
) -> None:
    """Damage ends the stream; a file that several ranks wrote at once is refused."""
    offset = feed.ratio.taken - len(feed.held)
    while len(feed.held) < 4 << 20 and feed.more():
        pass
    if any(GZIP + b"\x08" + flag in feed.held for flag in (b"\x00", b"\x08")):
        what = "damaged gzip: several ranks may have written to one file"
        hint = "give each rank its own file and record again"
        raise TraceError("E_GZIP", label, what, offset=offset, hint=hint)
    _damage("gzip", error, offset, label, ledger, started)


def _damage(
    kind: str, error: Exception, at: int, label: str, ledger: LedgerBuilder, started: bool
) -> None:
    """Note damage behind readable output; refuse a stream that has none."""
    if not started:
        what, hint = f"damaged {kind} ({error})", "copy the file again"
        raise TraceError("E_GZIP", label, what, offset=at, hint=hint) from None
    text = f"the {kind} stream is damaged near byte {at:,}; the data before it was kept"
    ledger.note("gzip_crc", text=text)


def unzstd(
    raw: Iterator[bytes], label: str, limits: Limits, ledger: LedgerBuilder
) -> Iterator[bytes]:
    """All frames of a zstd file; a damaged end keeps what came before it."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    ratio, frame = Ratio(label, limits), zstd.ZstdDecompressor()
    for block in raw:
        ratio.taken += len(block)
        data = block
        try:
            while data or not (frame.eof or frame.needs_input):
                if frame.eof:
                    frame = zstd.ZstdDecompressor()
                out = frame.decompress(data, BLOCK)
                ratio.add(len(out))
                if out:
                    yield out
                data = frame.unused_data if frame.eof else b""
        except zstd.ZstdError as error:
            return _damage("zstd", error, ratio.taken, label, ledger, bool(ratio.given))
    if not frame.eof:
        ledger.note("gzip_truncated", text="the zstd stream ends early")
