"""gzip and zstd streams. Damage keeps what came before it, with a note; the next member is read."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Iterator

from foretrace.base.errors import TraceError
from foretrace.read.limits import Limits
from foretrace.read.packed import BLOCK, FIRST_BITE, Feed, Inflated, Ratio, inflate
from foretrace.schema.ledger import LedgerBuilder

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
SKIPPABLE = tuple(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))  # as pzstd
MOST_DAMAGE = 64  # places; real files have one
# a whole header, as real writers fill it: chance gives one in 100 GB
_HEADER = re.compile(rb"\x1f\x8b\x08[\0\x04\x08].{4}[\0\x02\x04][\0-\x0d\xff]", re.DOTALL)
_HEADER_SIZE = 10


def gunzip(
    raw: Iterator[bytes], label: str, limits: Limits, ledger: LedgerBuilder
) -> Iterator[bytes]:
    """All members of a gzip file; a damaged one keeps what came before the damage."""
    feed, broken, places = Feed(raw, Ratio(label, limits)), False, 0
    while _at_member(feed, ledger):
        found = yield from _member(feed, ledger)
        whole = found.agrees and not found.cut and not found.error
        places += bool(found.error)
        if places > MOST_DAMAGE or (broken and not whole):
            raise _several_writers(label, found.at)
        broken = bool(found.error)
        if broken:
            follows, _ = feed.seek(_HEADER, _HEADER_SIZE)
            _note_damage("gzip", found.error, found.at, feed.ratio, ledger, follows=follows)


def _at_member(feed: Feed, ledger: LedgerBuilder) -> bool:
    """Step over padding, and over other bytes with a note, to the next member."""
    if feed.starts(GZIP):
        return True
    at = feed.offset
    follows, junk = feed.seek(_HEADER, _HEADER_SIZE)
    if junk:
        text = f"bytes after the gzip stream (at byte {at:,}) were ignored"
        ledger.note("gzip_trailing", text=text)
    return follows


def _member(feed: Feed, ledger: LedgerBuilder) -> Generator[bytes, None, Inflated]:
    """One member. The checksum is computed here: zlib drops its last output when it is wrong."""
    flags = feed.take(_HEADER_SIZE)[3:4] or b"\0"
    if flags[0] & 4:
        feed.skip(int.from_bytes(feed.take(2), "little"))
    for named in (8, 16):  # the name of the file and a comment, unread
        if flags[0] & named:
            feed.skip_past(b"\0")
    feed.skip(flags[0] & 2)
    found = yield from inflate(feed)
    if found.error:
        return found
    trailer = feed.take(8)
    if found.cut:
        ledger.note("gzip_truncated")
    elif len(trailer) < 8:
        ledger.note("gzip_truncated", text="the gzip stream lacks its checksum")
    elif trailer != found.crc.to_bytes(4, "little") + (found.size % 2**32).to_bytes(4, "little"):
        found.agrees = False
        ledger.note("gzip_crc")
    return found


def _several_writers(label: str, at: int) -> TraceError:
    """No member is whole: the blocks of several streams lie between each other."""
    what = "damaged gzip: several ranks may have written to one file"
    hint = "give each rank its own file and record again"
    return TraceError("E_GZIP", label, what, offset=at, hint=hint)


def _note_damage(
    kind: str, error: str, at: int, ratio: Ratio, ledger: LedgerBuilder, *, follows: bool = False
) -> None:
    """Note damage; refuse a file of which nothing can be read."""
    if not ratio.given and not follows:
        what, hint = f"damaged {kind} ({error})", "copy the file again"
        raise TraceError("E_GZIP", ratio.label, what, offset=at, hint=hint) from None
    kept = "the data before it and the next member were kept" if follows else _BEFORE
    ledger.note("gzip_crc", text=f"the {kind} stream is damaged near byte {at:,}; {kept}")


_BEFORE = "the data before it was kept"


def unzstd(
    raw: Iterator[bytes], label: str, limits: Limits, ledger: LedgerBuilder
) -> Iterator[bytes]:
    """All frames of a zstd file; a damaged end keeps what came before it."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    feed = Feed(raw, Ratio(label, limits))
    while feed.holds(1):
        frame, size, out = zstd.ZstdDecompressor(), FIRST_BITE, b""
        while not frame.eof:
            bite = feed.bite(size) if frame.needs_input else b""
            if not bite and frame.needs_input:
                ledger.note("gzip_truncated", text="the zstd stream ends early")
                return
            try:
                out = frame.decompress(bite, BLOCK)
            except zstd.ZstdError as error:
                _note_damage("zstd", str(error), feed.offset, feed.ratio, ledger)
                return
            feed.ratio.add(len(out))
            if out:
                yield out
            size = min(4 * size, BLOCK)
        feed.at -= len(frame.unused_data)
