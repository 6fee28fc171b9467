"""From a path to plain bytes. gzip, zstd, xz, zip and byte-order marks are recognised by content.

A stream yields blocks. Damage in a container is noted in the ledger, and what was read so far is
kept. A file that cannot be a trace is refused: the error says what it is and what to do instead.
Nothing is unpickled or given to another reader.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import IO, cast

from msgspec import Struct

from foretrace.base import budget, notices
from foretrace.base.budget import Limits, raised_by
from foretrace.base.errors import LimitError, TraceError
from foretrace.base.patterns import regex
from foretrace.base.units import bytes_text
from foretrace.read.ledger import LedgerBuilder
from foretrace.read.remote import BLOCK, SMALL, RemoteFile, is_remote, open_remote
from foretrace.read.unpack import (
    GZIP,
    SKIPPABLE,
    XZ,
    ZIP,
    ZSTD,
    blocks,
    gunzip,
    read_member,
    unreadable,
    unxz,
    unzip,
    unzstd,
)

CHROME_HINT = "give a Chrome-trace JSON file as torch.profiler writes it"

# possessive: many blanks or braces are read once
_JSON_LINES = regex(
    rb'\s*+\{\s*+"[^"]{1,120}+"\s*+:(?:[^\n}]++|\}(?![ \t\r]*+\n))*+\}[ \t\r]*+\n\s*+\{\s*+"'
)

# code and pattern at the start; then what the file is | what to do
_SIGNS = r"""
E_PICKLE \x80[\x02-\x05]
    a Python pickle (never loaded) | `foretrace memory` reads a snapshot of torch's allocator
E_WRONG_FORMAT NVR\0
    an Nsight Compute report | record with torch.profiler
E_WRONG_FORMAT BZh[1-9]
    bzip2-compressed | unpack it with `bunzip2`
E_NOT_A_TRACE \x7fELF
    a program | give a trace
E_NOT_A_TRACE version https://git-lfs
    a Git LFS pointer, not the trace itself | run `git lfs pull`
E_NOT_A_TRACE \s*+<
    HTML or XML (an error page saved as a trace?) | download the trace again
E_NOT_A_TRACE \s*+[\[{]\s*+'
    looks like a Python repr, not JSON | write it with json.dump
E_ENCODING [\[{]\0|\0[\[{]
    UTF-16 without a byte-order mark | convert it with `iconv -f UTF-16 -t UTF-8`
E_WRONG_FORMAT \s*+\{\s*+"schema"\s*+:\s*+"[\d.]
    a PyTorch execution trace, not a profiler trace | record with torch.profiler.profile
E_WRONG_FORMAT \s*+\[\s*+\[\s*+-?[\d.]
    a PyTorch memory timeline, not a profiler trace | record with torch.profiler.profile
""".strip().splitlines()


def refuse_non_json(path: str, first: bytes, depth_limit: int) -> None:
    """Raise the `TraceError` that fits when `first` cannot begin a trace."""
    text = first.lstrip(b" \t\r\n")
    if not text:
        return
    for sign, meaning in zip(_SIGNS[::2], _SIGNS[1::2], strict=True):
        code, pattern = sign.split(" ", 1)
        if re.match(pattern.encode("ascii"), first):
            what, hint = meaning.strip().split(" | ")
            raise TraceError(code, path, what, offset=0, hint=hint)
    if _is_protobuf(first):  # Perfetto's were turned into JSON before
        what = "an XPlane protobuf (TensorFlow or JAX profiler)"
        hint = "record with torch.profiler"
        raise TraceError("E_WRONG_FORMAT", path, what, offset=0, hint=hint)
    if not text.startswith((b"{", b"[")):
        what = f"begins with neither {{ nor [ but {text[:12].decode('latin-1')!a}"
        offset = len(first) - len(text)
        raise TraceError("E_NOT_A_TRACE", path, what, offset=offset, hint=CHROME_HINT)
    if re.match(rb"\s*+(?:\[\s*+){%d}" % (depth_limit + 1), first):
        what = f"nested deeper than {depth_limit}"
        raise TraceError("E_TOO_DEEP", path, what, offset=depth_limit, hint=raised_by("depth"))


def _is_protobuf(first: bytes) -> bool:
    """Whether a message with one field after another begins here: JSON may begin with a newline."""
    json = first.lstrip(b" \t\r\n").startswith((b"{", b"["))
    return first.startswith(b"\n") and (not json or b"\x12" in first[:64])


def is_converted(first: bytes) -> bool:
    """Whether a file begins in a format that is turned into JSON."""
    return first.startswith(_SQLITE) or _is_perfetto(first)


def _is_perfetto(first: bytes) -> bool:
    other = any(sign in first for sign in (b"/host:", b"/device:", b"XSpace"))
    return _is_protobuf(first) and not other


def empty(path: str) -> TraceError:
    """The error for a file without content."""
    hint = "the export may have been killed: record again"
    return TraceError("E_EMPTY", path, "empty", offset=0, hint=hint)


def refuse_no_events(path: str, start: bytes, whole: bool) -> TraceError:
    """The error for a JSON document in which no list of events was found."""
    code, offset = "E_NO_EVENTS", 0
    what, hint = "has no list `traceEvents`", CHROME_HINT
    if _JSON_LINES.match(start) and b'"ph"' in start[:4096]:
        what = "JSON-lines: one event per line, without a list around them"
        hint = "wrap them: `jq -s . FILE > trace.json`"
    elif b'"nodes"' in start and b'"schema"' in start:
        code, what = "E_WRONG_FORMAT", "a PyTorch execution trace, not a profiler trace"
        hint = "record with torch.profiler.profile"
    elif not whole:
        what, offset = "the file was cut in the header, before its first event", len(start)
        hint = "record again; this file cannot be recovered"
    return TraceError(code, path, what, offset=offset, hint=hint)


MAX_LAYERS = 2
_SQLITE = b"SQLite format 3\0"
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
UNPACKED = 12  # 48 recorded and public traces unpack to 4 to 29 times their size, half to over 13
Watch = Callable[[int, int], None]  # bytes read, of how many


class ByteStream(Struct):
    """Blocks of plain bytes, the first at byte `start` of the document.

    `likely_size` is 0 for standard input, which cannot be read twice.
    """

    label: str
    blocks: Iterator[bytes]
    likely_size: int
    start: int = 0


def open_stream(
    path: str,
    limits: Limits,
    ledger: LedgerBuilder,
    watch: Watch = lambda *_: None,
    handle: IO[bytes] | None = None,
) -> ByteStream:
    """Open `path` (`-` is stdin, `a.zip::member` one member, `s3://…` a file in a bucket) and peel
    its containers off; `handle` is the file where it is open already.
    """
    label = "<stdin>" if path == "-" else path
    archive, _, member = path.partition("::")
    inside = bool(member) and not os.path.exists(path)
    if handle is None:
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


def first_bytes(path: str, limits: Limits, most: int, until: bytes | None = None) -> bytes:
    """The start of a file, unpacked."""
    return start_of(open_stream(path, limits, LedgerBuilder()), most, until)


def start_of(stream: ByteStream, most: int, until: bytes | None = None) -> bytes:
    """The next bytes: about `most`, or less after eight blocks, or where the pattern `until` is
    found.
    """
    held = b""
    for block in islice(stream.blocks, 8):
        held += block
        if len(held) >= most or (until and re.search(until, held)):
            break
    return held


def reported(path: str) -> Watch:
    """Say on the way how much of a file is read."""

    def watch(done: int, size: int) -> None:
        of = f" of {bytes_text(size)}" if size else ""  # standard input has none
        notices.report(f"reading {bytes_text(done)}{of}: {path}")

    return watch


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
    for magic, opener in ((GZIP, gunzip), ((ZSTD, *SKIPPABLE), unzstd), (XZ, unxz), (ZIP, unzip)):
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
    elif first.startswith(_SQLITE):
        from foretrace.read.nsys import from_nsys  # brings sqlite3, which no other trace needs

        yield from from_nsys(chain((first,), raw), label, ledger)
    elif _is_perfetto(first):
        from foretrace.read.pftrace import from_pftrace

        yield from from_pftrace(chain((first,), raw), label, ledger)
    elif first.startswith(_UTF16):
        ledger.note("bom")
        decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
        for block in chain((first,), raw, (b"",)):
            text = decoder.decode(block, final=not block)
            if "�" in text:
                ledger.note("bad_utf8", text.count("�"))
            yield text.encode("utf-8", "replace")
    else:
        ledger.note("bom", first.startswith(codecs.BOM_UTF8))
        yield first.removeprefix(codecs.BOM_UTF8)
        yield from raw


def _checked(blocks: Iterator[bytes], label: str, limits: Limits) -> Iterator[bytes]:
    total = 0
    for block in blocks:
        total += len(block)
        if total > limits.bytes:
            what = f"more than {limits.bytes:,} bytes of JSON"
            raise LimitError("E_TOO_BIG", label, what, offset=total, hint=raised_by("bytes"))
        budget.took(len(block))
        yield block
