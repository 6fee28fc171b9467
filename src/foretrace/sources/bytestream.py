"""From a path to plain JSON bytes. gzip, zstd, zip and byte-order marks are told by content.

A stream yields blocks. Damage in a container is noted in the ledger and what was read so far is
kept; only a file that cannot be a trace at all is refused.
"""

from __future__ import annotations

import codecs
import io
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from foretrace.errors import LimitError, TraceError
from foretrace.schema.ledger import LedgerBuilder
from foretrace.sources.compressed import BLOCK, GZIP, ZSTD, Ratio, gunzip, unzstd
from foretrace.sources.limits import Limits, raised_by

if TYPE_CHECKING:
    import zipfile

ZIP = b"PK\x03\x04"
MAX_LAYERS = 2
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_UNPACKED = 12  # 48 recorded and public traces unpack to 4 to 29 times their size, half to over 13
Watch = Callable[[int, int], None]  # bytes read, of how many


def unwatched(done: int, size: int) -> None:
    """Nobody waits for this read."""


class ByteStream(Struct):
    """Blocks of plain bytes, the first at byte `start` of the document.

    `likely_size` is 0 for standard input, which cannot be read twice.
    """

    label: str
    blocks: Iterator[bytes]
    likely_size: int
    start: int = 0


def open_stream(
    path: str, limits: Limits, ledger: LedgerBuilder, watch: Watch = unwatched
) -> ByteStream:
    """Open `path` (`-` is stdin, `a.zip::member` one member) and peel its containers off."""
    label = "<stdin>" if path == "-" else path
    archive, _, member = path.partition("::")
    inside = bool(member) and not os.path.exists(path)
    handle = _open_regular(archive if inside else path)
    size = 0 if path == "-" else os.fstat(handle.fileno()).st_size
    if inside:
        raw, first = _zip_member(handle, archive, member, limits, watch), ZIP
    else:
        raw = _read(handle, label, lambda done: watch(done, size))
        first = next(raw, b"")
        raw = chain((first,), raw)
    plain = _checked(_peel(raw, label, limits, ledger, 0), label, limits)
    start = len(codecs.BOM_UTF8) if first.startswith(codecs.BOM_UTF8) else 0
    return ByteStream(label, plain, size * (_UNPACKED if _container(first) else 1), start)


def _open_regular(path: str) -> IO[bytes]:
    """A regular file or stdin; what could block or never end is refused before it is opened."""
    if path == "-":
        return sys.stdin.buffer
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            hint = "give a file, a folder, or - for stdin"
            raise TraceError("E_NOT_REGULAR", path, "not a regular file", hint=hint)
        return open(path, "rb", buffering=0)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error, "check the path and its permissions") from None


def _unreadable(path: str, error: Exception, hint: str) -> TraceError:
    what = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    return TraceError("E_UNREADABLE", path, what, hint=hint)


def _read(handle: IO[bytes], label: str, watch: Callable[[int], None]) -> Iterator[bytes]:
    done = 0
    with handle:
        while True:
            try:
                block = handle.read(BLOCK)
            except OSError as error:
                raise _unreadable(label, error, "copy the file again") from None
            if not block:
                return
            done += len(block)
            watch(done)
            yield block


def _container(first: bytes) -> Callable[..., Iterator[bytes]] | None:
    for magic, opener in ((GZIP, gunzip), (ZSTD, unzstd), (ZIP, _unzip)):
        if first.startswith(magic):
            return opener
    return None


def _peel(
    raw: Iterator[bytes], label: str, limits: Limits, ledger: LedgerBuilder, layer: int
) -> Iterator[bytes]:
    """Take containers off until plain text is left; at most `MAX_LAYERS` of them."""
    first = next(raw, b"")
    opener = _container(first)
    if opener is not None:
        if layer >= MAX_LAYERS:
            what = f"compressed more than {MAX_LAYERS} times"
            raise TraceError("E_GZIP", label, what, offset=0, hint="unpack it first")
        inside = opener(chain((first,), raw), label, limits, ledger)
        yield from _peel(inside, label, limits, ledger, layer + 1)
    elif first.startswith(_UTF16):
        ledger.note("bom")
        yield from _from_utf16(chain((first,), raw), ledger)
    else:
        yield first[_skip_bom(first, ledger) :]
        yield from raw


def _skip_bom(first: bytes, ledger: LedgerBuilder) -> int:
    if first.startswith(codecs.BOM_UTF8):
        ledger.note("bom")
        return len(codecs.BOM_UTF8)
    return 0


def _from_utf16(raw: Iterator[bytes], ledger: LedgerBuilder) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
    for block in raw:
        text = decoder.decode(block)
        if "�" in text:
            ledger.note("bad_utf8", text.count("�"))
        yield text.encode("utf-8", "replace")


def _checked(blocks: Iterator[bytes], label: str, limits: Limits) -> Iterator[bytes]:
    total = 0
    for block in blocks:
        total += len(block)
        if total > limits.bytes:
            what = f"more than {limits.bytes:,} bytes of JSON"
            raise LimitError("E_TOO_BIG", label, what, offset=total, hint=raised_by("bytes"))
        yield block


def _unzip(
    raw: Iterator[bytes], label: str, limits: Limits, ledger: LedgerBuilder
) -> Iterator[bytes]:
    """A zip met as a stream (stdin, or inside another container): it must hold one trace."""
    held = io.BytesIO(b"".join(_checked(raw, label, limits)))
    yield from _zip_member(held, label, None, limits)


def _zip_member(
    handle: IO[bytes],
    label: str,
    member: str | None,
    limits: Limits,
    watch: Watch = unwatched,
) -> Iterator[bytes]:
    import zipfile  # brings bz2, lzma and shutil

    with handle, open_zip(handle, label, limits) as archive:
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
        name = member if member is not None else (names[0] if len(names) == 1 else "")
        if name not in names:
            what = f"contains {len(names)} members: {', '.join(names[:8])}"
            raise TraceError("E_ZIP", label, what, hint=f"choose one: {label}::MEMBER")
        ratio, info = Ratio(label, limits), archive.getinfo(name)
        ratio.taken = info.compress_size
        try:
            with archive.open(name) as opened:
                while block := opened.read(BLOCK):
                    ratio.add(len(block))
                    watch(ratio.given, info.file_size)
                    yield block
        except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError) as error:
            what = f"damaged or locked zip member ({error})"
            raise TraceError("E_ZIP", f"{label}::{name}", what, hint="unpack it first") from None


def open_zip(handle: IO[bytes], label: str, limits: Limits) -> zipfile.ZipFile:
    """A zip whose members neither overlap (a bomb) nor are too many; none is unpacked to disk."""
    import zipfile

    try:
        archive = zipfile.ZipFile(handle)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        what = f"damaged zip ({error})"
        raise TraceError("E_ZIP", label, what, hint="copy the file again") from None
    infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    if len(infos) > limits.members:
        what = f"{len(infos):,} members, more than {limits.members}"
        raise LimitError("E_ZIP", label, what, hint=raised_by("members"))
    for info, after in pairwise(infos):
        size = 30 + len(info.orig_filename.encode()) + info.compress_size
        if info.header_offset + size > after.header_offset:
            what, at = "members of the zip overlap", after.header_offset
            raise LimitError("E_BOMB", label, what, offset=at, hint="do not trust this file")
    return archive
