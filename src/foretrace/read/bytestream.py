"""From a path to plain bytes. gzip, zstd, xz, zip and byte-order marks are recognised by content.

A stream yields blocks. Damage in a container is noted in the ledger, and what was read so far is
kept. A file that cannot be a trace is refused: the error says what it is and what to do instead.
Nothing is unpickled or given to another reader, and nothing is unpacked to disk.

A zip in a file is read through its directory. A zip met as a stream (stdin, or inside another
container) is read from its start, member by member, because its directory comes last.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
import struct
import sys
import zlib
from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import chain, islice, pairwise
from typing import IO, TYPE_CHECKING, Any, cast

from msgspec import Struct

from foretrace.base import budget
from foretrace.base.budget import RATIO_FREE_BYTES, Limits, raised_by
from foretrace.base.errors import LimitError, TraceError, report
from foretrace.base.patterns import regex
from foretrace.base.units import bytes_text
from foretrace.read.ledger import LedgerBuilder

if TYPE_CHECKING:
    import zipfile

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
        handle = open_regular(archive, SMALL) if inside else open_regular(path, LARGE)
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
        report(f"reading {bytes_text(done)}{of}: {path}")

    return watch


# of a file in a store: what is fetched at once of one that is read to its end, and of one that is
# looked into, or whose directory is at its end
LARGE, SMALL = 8 << 20, 256 << 10


def is_remote(path: str) -> bool:
    """Whether a path is an address, and no file of that odd name."""
    return path.partition("://")[0].isalnum() and "://" in path and not os.path.exists(path)


def open_regular(path: str, block: int) -> IO[bytes]:
    """A regular file or stdin; what could block or never end is refused before it is opened."""
    if path == "-":
        return sys.stdin.buffer
    try:
        if is_remote(path):
            from foretrace.read.remote import open_remote  # brings drivers

            return cast("IO[bytes]", open_remote(path, block))
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            hint = "give a file, a folder, or - for stdin"
            raise TraceError("E_NOT_REGULAR", path, "not a regular file", hint=hint)
        return open(path, "rb", buffering=0)
    except (OSError, ValueError) as error:
        raise unreadable(path, error, "check the path and its permissions") from None


def _size(handle: IO[bytes]) -> int:
    if (stated := getattr(handle, "size", None)) is not None:  # a file in a store
        return int(stated)
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
        from foretrace.read.converted import from_nsys  # brings sqlite3, which no other trace needs

        yield from from_nsys(chain((first,), raw), label, ledger)
    elif _is_perfetto(first):
        from foretrace.read.converted import from_pftrace

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


GZIP, ZSTD, XZ = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0"
MOST_DICTIONARY = 256 << 20  # bytes that an xz decoder may hold; `xz -9` makes it hold 65 MiB
SKIPPABLE = tuple(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))  # as pzstd
MOST_DAMAGE = 64  # places; real files have one
# a whole header, as real writers fill it: chance gives one in 100 GB
_HEADER = regex(rb"\x1f\x8b\x08[\0\x04\x08].{4}[\0\x02\x04][\0-\x0d\xff]", re.DOTALL)
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
            # no member is whole: the blocks of several streams lie between each other
            what = "damaged gzip: several ranks may have written to one file"
            hint = "give each rank its own file and record again"
            raise TraceError("E_GZIP", label, what, offset=found.at, hint=hint)
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


def _note_damage(
    kind: str, error: str, at: int, ratio: Ratio, ledger: LedgerBuilder, *, follows: bool = False
) -> None:
    """Note damage; refuse a file of which nothing can be read."""
    if not ratio.given and not follows:
        what, hint = f"damaged {kind} ({error})", "copy the file again"
        raise TraceError("E_GZIP", ratio.label, what, offset=at, hint=hint) from None
    kept = f"the data before it {'and the next member were' if follows else 'was'} kept"
    ledger.note("gzip_crc", text=f"the {kind} stream is damaged near byte {at:,}; {kept}")


def unzstd(
    raw: Iterator[bytes], label: str, limits: Limits, ledger: LedgerBuilder
) -> Iterator[bytes]:
    """All frames of a zstd file; a damaged end keeps what came before it."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    yield from _frames(raw, label, limits, ledger, ("zstd", zstd.ZstdDecompressor, zstd.ZstdError))


def unxz(
    raw: Iterator[bytes], label: str, limits: Limits, ledger: LedgerBuilder
) -> Iterator[bytes]:
    """All streams of an xz file; a damaged end keeps what came before it."""
    import lzma

    decoder = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, MOST_DICTIONARY)
    yield from _frames(raw, label, limits, ledger, ("xz", decoder, lzma.LZMAError))


def _frames(
    raw: Iterator[bytes],
    label: str,
    limits: Limits,
    ledger: LedgerBuilder,
    codec: tuple[str, Callable[[], Any], type[Exception]],
) -> Iterator[bytes]:
    kind, decoder, problem = codec
    feed = Feed(raw, Ratio(label, limits))
    while feed.holds(1):
        frame, size, out = decoder(), FIRST_BITE, b""
        while not frame.eof:
            bite = feed.bite(size) if frame.needs_input else b""
            if not bite and frame.needs_input:
                ledger.note("gzip_truncated", text=f"the {kind} stream ends early")
                return
            try:
                out = frame.decompress(bite, BLOCK)
            except problem as error:
                _note_damage(kind, str(error), feed.offset, feed.ratio, ledger)
                return
            feed.ratio.add(len(out))
            if out:
                yield out
            size = min(4 * size, BLOCK)
        feed.at -= len(frame.unused_data)


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


def zip_members(path: str, limits: Limits) -> list[str] | None:
    """The members of a zip as paths; None for another file, or one that cannot be opened."""
    try:
        if not os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            if file.read(len(ZIP)) != ZIP:
                return None
            with open_zip(file, path, limits) as archive:
                return [f"{path}::{member}" for member in files_in(archive)]
    except OSError:
        return None  # opening it for reading says what is wrong


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
