"""From a path to plain JSON bytes. gzip, zstd, zip and byte-order marks are told by content.

A stream yields blocks. Damage in a container is noted in the ledger and what was read so far is
kept; only a file that cannot be a trace at all is refused.
"""

from __future__ import annotations

import codecs
import os
import stat
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from typing import IO, cast

from msgspec import Struct

from foretrace.base.errors import LimitError, TraceError
from foretrace.read import budget
from foretrace.read.compressed import GZIP, SKIPPABLE, ZSTD, gunzip, unzstd
from foretrace.read.limits import Limits, raised_by
from foretrace.read.packed import blocks, unreadable
from foretrace.read.remote import BLOCK, SMALL, RemoteFile, is_remote, open_remote
from foretrace.read.zipped import ZIP, read_member, unzip
from foretrace.schema.ledger import LedgerBuilder

MAX_LAYERS = 2
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
UNPACKED = 12  # 48 recorded and public traces unpack to 4 to 29 times their size, half to over 13
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
    """Open `path` (`-` is stdin, `a.zip::member` one member, `s3://…` a file in a bucket) and peel
    its containers off.
    """
    label = "<stdin>" if path == "-" else path
    archive, _, member = path.partition("::")
    inside = bool(member) and not os.path.exists(path)
    handle = open_regular(archive, SMALL) if inside else open_regular(path, BLOCK)
    size = _size(handle)
    if inside:
        raw, first = read_member(handle, archive, member, limits, ledger, watch), ZIP
    else:
        raw = _read(handle, label, lambda done: watch(done, size))
        first = next(raw, b"")
        raw = chain((first,), raw)
    plain = _checked(_peel(raw, label, limits, ledger, 0), label, limits)
    start = len(codecs.BOM_UTF8) if first.startswith(codecs.BOM_UTF8) else 0
    return ByteStream(label, plain, size * (UNPACKED if _container(first) else 1), start)


def open_regular(path: str, block: int) -> IO[bytes]:
    """A regular file or stdin; what could block or never end is refused before it is opened."""
    if path == "-":
        return sys.stdin.buffer
    try:
        if is_remote(path):
            return cast("IO[bytes]", open_remote(path, block))
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            hint = "give a file, a folder, or - for stdin"
            raise TraceError("E_NOT_REGULAR", path, "not a regular file", hint=hint)
        return open(path, "rb", buffering=0)
    except (OSError, ValueError) as error:
        raise unreadable(path, error, "check the path and its permissions") from None


def _size(handle: IO[bytes]) -> int:
    if isinstance(handle, RemoteFile):
        return handle.size
    stdin = getattr(sys.stdin, "buffer", None)  # a notebook, a service or a test has no such file
    return 0 if handle is stdin else os.fstat(handle.fileno()).st_size


def _read(handle: IO[bytes], label: str, watch: Callable[[int], None]) -> Iterator[bytes]:
    done = 0
    with handle:
        for block in blocks(handle, label):
            done += len(block)
            watch(done)
            yield block


def _container(first: bytes) -> Callable[..., Iterator[bytes]] | None:
    for magic, opener in ((GZIP, gunzip), ((ZSTD, *SKIPPABLE), unzstd), (ZIP, unzip)):
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
    for block in chain(raw, (b"",)):
        text = decoder.decode(block, final=not block)
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
        budget.took(len(block))
        yield block
