"""Members of a zip, stored or deflated; none is unpacked to disk.

A zip in a file is read through its directory. One met as a stream (stdin, or inside another
container) is read from its start, member by member, because its directory comes last.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Generator, Iterator
from itertools import pairwise
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from foretrace.base.errors import LimitError, TraceError
from foretrace.read.limits import Limits, raised_by
from foretrace.read.packed import BLOCK, Feed, Inflated, Ratio, blocks, inflate
from foretrace.schema.ledger import LedgerBuilder

if TYPE_CHECKING:
    import zipfile

ZIP = b"PK\x03\x04"
_DIRECTORY, _DESCRIPTOR = b"PK\x01\x02", b"PK\x07\x08"
_STORED, _DEFLATED = 0, 8
_METHODS = {9: "deflate64", 12: "bzip2", 14: "LZMA", 93: "zstd", 95: "xz"}
_LOCAL = struct.Struct("<4s5H3I2H")  # the header before each member
_ENTRY_BYTES = 1 << 10  # of the directory, for each member: 46 and the name
_UNPACK = "unpack it first"


class _Entry(Struct):
    """One member, as the header before it says; sizes may follow it instead."""

    name: str
    flags: int
    method: int
    crc: int
    packed: int

    @property
    def states_later(self) -> bool:
        """Whether checksum and sizes come after the content."""
        return bool(self.flags & 8)


def unzip(
    raw: Iterator[bytes], label: str, limits: Limits, ledger: LedgerBuilder
) -> Iterator[bytes]:
    """A zip met as a stream: it must hold one file."""
    feed, first = Feed(raw, Ratio(label, limits)), ""
    while feed.starts(ZIP):
        entry = _entry(feed, label)
        if entry.name.endswith("/"):
            feed.skip(entry.packed)
            continue
        if first:
            what = f"contains several members: {first}, {entry.name}"
            raise TraceError("E_ZIP", label, what, offset=feed.offset, hint=_UNPACK)
        first = entry.name
        yield from _content(feed, entry, label, limits, ledger)
    if not feed.starts(_DIRECTORY):
        ledger.note("gzip_truncated", text="the zip ends early")
    while feed.holds(1):
        feed.skip(BLOCK)  # what packed the zip checks its own end


def read_member(
    handle: IO[bytes],
    label: str,
    member: str | None,
    limits: Limits,
    ledger: LedgerBuilder,
    watch: Callable[[int, int], None],
) -> Iterator[bytes]:
    """One member of a zip in a file: `member`, or the only one."""
    with handle, open_zip(handle, label, limits) as archive:
        names = files_in(archive)
        name = member if member is not None else (names[0] if len(names) == 1 else "")
        if name not in names:
            what = f"contains {len(names)} members: {', '.join(names[:8])}"
            raise TraceError("E_ZIP", label, what, hint=f"choose one: {label}::MEMBER")
        info = archive.getinfo(name)
        handle.seek(max(info.header_offset, 0))  # a damaged directory gives a negative one
        feed, done = Feed(blocks(handle, label), Ratio(label, limits)), 0
        entry = _entry(feed, label)
        entry.packed, entry.crc = info.compress_size, info.CRC
        entry.flags &= ~8  # the directory has what would follow the content
        for block in _content(feed, entry, f"{label}::{name}", limits, ledger):
            done += len(block)
            watch(done, info.file_size)
            yield block


def _entry(feed: Feed, label: str) -> _Entry:
    """The header before a member, which the feed then stands at."""
    head = feed.take(_LOCAL.size)
    if len(head) < _LOCAL.size or not head.startswith(ZIP):
        what = "damaged zip (a member lacks its header)"
        raise TraceError("E_ZIP", label, what, offset=feed.offset, hint="copy the file again")
    _, _, flags, method, _, _, crc, packed, _, name_size, extra_size = _LOCAL.unpack(head)
    name = feed.take(name_size).decode("utf-8" if flags & 0x800 else "cp437", "replace")
    extra = feed.take(extra_size)
    if packed == 0xFFFFFFFF:  # zip64: both sizes are in the extra field, this one second
        packed = int.from_bytes(extra[12:20], "little") if extra.startswith(b"\1\0") else 0
    return _Entry(name, flags, method, crc, packed)


def _content(
    feed: Feed, entry: _Entry, label: str, limits: Limits, ledger: LedgerBuilder
) -> Iterator[bytes]:
    """What a member holds; damage keeps what came before it."""
    _refuse_other_methods(entry, label)
    own = _upto(feed, entry.packed)
    packed = feed if entry.states_later else Feed(own, Ratio(label, limits))
    found = yield from (
        _stored(packed, entry.packed) if entry.method == _STORED else inflate(packed)
    )
    crc = entry.crc
    if entry.states_later:
        crc = found.crc if found.error else _stated_later(feed)
    else:
        packed.skip(entry.packed)
    if found.error:
        if not found.size:
            what = f"damaged zip member ({found.error})"
            raise TraceError("E_ZIP", label, what, offset=found.at, hint="copy the file again")
        text = f"the zip member is damaged near its byte {found.at:,}; the data before it was kept"
        ledger.note("gzip_crc", text=text)
    elif found.cut:
        ledger.note("gzip_truncated", text="the zip member ends early")
    elif crc != found.crc:
        ledger.note("gzip_crc", text="the checksum of the zip member does not match")


def _refuse_other_methods(entry: _Entry, label: str) -> None:
    """bzip2 and LZMA unpack a few kB to gigabytes before the first byte comes out."""
    if entry.flags & 1:
        raise TraceError("E_ZIP", label, "the zip member is encrypted", hint=_UNPACK)
    if entry.method not in (_STORED, _DEFLATED):
        method = _METHODS.get(entry.method, f"method {entry.method}")
        what = f"the zip member is packed with {method}; only stored and deflated ones are read"
        raise TraceError("E_ZIP", label, what, hint=_UNPACK)
    if entry.method == _STORED and entry.states_later:
        what = "the zip member does not state its size"
        raise TraceError("E_ZIP", label, what, hint=_UNPACK)


def _upto(feed: Feed, size: int) -> Iterator[bytes]:
    """The next `size` bytes: a member never reads on into another."""
    while size and (bite := feed.bite(min(size, BLOCK))):
        size -= len(bite)
        yield bytes(bite)


def _stored(feed: Feed, size: int) -> Generator[bytes, None, Inflated]:
    found = Inflated()
    while found.size < size and (bite := feed.bite(size - found.size)):
        yield found.add(bytes(bite))
    found.cut = found.size < size
    return found


def _stated_later(feed: Feed) -> int:
    """The checksum after the content; the feed then stands at the next header.

    The sizes behind it have 4 or 8 bytes each, and nothing says which.
    """
    if feed.starts(_DESCRIPTOR):
        feed.skip(4)
    crc = int.from_bytes(feed.take(4), "little")
    sizes = feed.take(8)
    if not feed.starts(b"PK") and len(sizes) == 8:
        feed.skip(8)
    return crc


def files_in(archive: zipfile.ZipFile) -> list[str]:
    """The names of the members that are not folders."""
    return [name for name in archive.namelist() if not name.endswith("/")]


def open_zip(handle: IO[bytes], label: str, limits: Limits) -> zipfile.ZipFile:
    """A zip whose members neither overlap (a bomb) nor are too many."""
    import zipfile  # brings bz2, lzma and shutil

    _refuse_large_directory(handle, label, limits)
    try:
        archive = zipfile.ZipFile(handle)
    except (
        zipfile.BadZipFile,
        OSError,
        ValueError,
        ArithmeticError,
        NotImplementedError,
        struct.error,
    ) as error:
        what = f"damaged zip ({error})"
        raise TraceError("E_ZIP", label, what, hint="copy the file again") from None
    infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    if len(infos) > limits.members:
        what = f"{len(infos):,} members, more than {limits.members}"
        raise LimitError("E_ZIP", label, what, hint=raised_by("members"))
    for info, after in pairwise(infos):
        size = _LOCAL.size + len(info.orig_filename.encode()) + info.compress_size
        if info.header_offset + size > after.header_offset:
            what, at = "members of the zip overlap", after.header_offset
            raise LimitError("E_BOMB", label, what, offset=at, hint="do not trust this file")
    return archive


def _refuse_large_directory(handle: IO[bytes], label: str, limits: Limits) -> None:
    """`zipfile` holds the whole directory before a member can be counted."""
    size = handle.seek(0, os.SEEK_END)
    handle.seek(max(size - (64 << 10) - 128, 0))
    tail = handle.read((64 << 10) + 128)
    handle.seek(0)
    end = tail.rfind(b"PK\5\6")
    large = tail.rfind(b"PK\6\6", 0, max(end, 0))  # zip64
    stated = int.from_bytes(tail[end + 12 : end + 16], "little") if end >= 0 else 0
    if large >= 0:
        stated = int.from_bytes(tail[large + 40 : large + 48], "little")
    if stated > limits.members * _ENTRY_BYTES:
        what = f"a directory of {stated:,} bytes, too many for {limits.members} members"
        raise LimitError("E_ZIP", label, what, hint=raised_by("members"))
