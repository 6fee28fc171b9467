"""The second open is quick: tables as Parquet, keyed by the content of the trace.

The key is a hash of the file's bytes and of `FORMAT`: two versions of the program use one folder
without meeting. Hashing a large file takes longer than opening its cache, so the hash of an
unchanged file (same inode, size, and both times to the nanosecond) is remembered, as Git does; a
file of a size that was never kept is not hashed at all. Entries are written atomically: two
processes may write one at once, and a reader sees all or nothing. What was read from a file that
changed meanwhile is not kept. Only traces that take long to read are kept. No failure of the cache
is an error: the trace is read again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from foretrace.base import budget
from foretrace.base.patterns import regex
from foretrace.read import entries
from foretrace.read.bytestream import UNPACKED

if TYPE_CHECKING:
    from foretrace.schema.tables import Tables

FORMAT = 11  # raise when the tables or the entries change
WORTHWHILE_BYTES = 1 << 20  # smaller traces are read as fast as their cache would be
_KEY = regex(rb"[0-9a-f]{64}")
_LENGTH = 8  # bytes: how long the facts at the end of an entry are


def stamp_of(path: str) -> str | None:
    """What changes when a file does, its size first; None for what is not worth keeping."""
    try:
        known = os.stat(path)
    except (OSError, ValueError):
        return None
    if known.st_size < WORTHWHILE_BYTES:
        return None
    return f"{known.st_size}-{known.st_dev}-{known.st_ino}-{known.st_mtime_ns}-{known.st_ctime_ns}"


def key_of(path: str, *, if_kept: bool = False) -> str | None:
    """The cache key of a file's content; None for what is not kept: small files, stdin, members.

    With `if_kept`, also None for a size of which nothing was ever kept.
    """
    stamp = stamp_of(path)
    if stamp is None:
        return None
    if if_kept and entries.read(_size(stamp)) is None:
        return None
    memo = entries.named("key", FORMAT, stamp)
    known = entries.read(memo)
    if known is not None and _KEY.fullmatch(known):
        return bytes(known).decode()
    key = _hash(path)
    if key is not None:
        entries.write(memo, [key.encode()])
    return key


def _size(stamp: str) -> str:
    """The entry that says that something of a file of this size was kept."""
    return entries.named("size", FORMAT, stamp.partition("-")[0])


def _hash(path: str) -> str | None:
    from hashlib import sha256

    digest = sha256(f"foretrace-{FORMAT}\n".encode())
    try:
        with open(path, "rb", buffering=0) as file:
            while block := file.read(4 << 20):
                digest.update(block)
    except OSError:
        return None  # whoever reads the trace says why
    return digest.hexdigest()


def load(path: str) -> Tables | None:
    """The cached tables of `path`, or None."""
    key = key_of(path, if_kept=True)
    name = entries.named("tables", key)
    content = entries.read(name) if key else None
    if content is None:
        return None
    import polars as pl

    budget.took(UNPACKED * os.path.getsize(path))  # first: the tables of a large trace are large
    try:
        return _unpacked(content)
    except (ValueError, LookupError, TypeError, pl.exceptions.PolarsError):
        entries.discard(name)  # another program's: it is written again
        return None


def _unpacked(content: memoryview) -> Tables:
    import msgspec
    import polars as pl

    from foretrace.schema.ledger import Ledger
    from foretrace.schema.tables import Tables

    length = int.from_bytes(content[-_LENGTH:], "little")
    meta = json.loads(bytes(content[-_LENGTH - length : -_LENGTH]))
    frames, at = {}, 0
    for name, size in meta["sizes"].items():
        frames[name] = pl.read_parquet(bytes(content[at : at + size]))
        at += size
    ledger = msgspec.convert(meta["ledger"], Ledger)
    (base, resolution, lag, last), merged = meta["clock"], tuple(meta["merged"])
    clock = (base, resolution, merged, lag, last)
    return Tables(meta["source"], frames, meta["header"], ledger, *clock)


def save(path: str, stamp: str | None, tables: Tables) -> None:
    """Keep the tables of `path` as it was at `stamp`. Failing to write is no error."""
    _save(path, stamp, ("tables",), lambda: _packed(tables))


def _save(
    path: str, stamp: str | None, what: tuple[str, ...], parts: Callable[[], Iterable[bytes]]
) -> None:
    key = key_of(path)
    if key is not None and stamp is not None and stamp_of(path) == stamp:
        kind, *more = what
        entries.write(entries.named(kind, key, *more), parts())
        entries.write(_size(stamp), [])


def _packed(tables: Tables) -> Iterator[bytes]:
    """Every table as Parquet, then the facts about them and how long these are."""
    from io import BytesIO

    import msgspec

    sizes = {}
    for name, frame in tables.frames.items():
        # in memory, because Polars has errors of its own for a disk that refuses
        frame.write_parquet(file := BytesIO(), compression="lz4", statistics=False)
        sizes[name] = file.tell()
        yield file.getvalue()
    meta = {
        "sizes": sizes,
        "source": tables.source,
        "header": tables.header,
        "clock": (tables.base_ns, tables.resolution_ns, tables.gpu_lag_ns, tables.last),
        "merged": tables.merged,
        "ledger": msgspec.to_builtins(tables.ledger),
    }
    facts = json.dumps(meta).encode()
    yield facts
    yield len(facts).to_bytes(_LENGTH, "little")


def load_document(path: str, what: str) -> bytes | None:
    """A finished document of an unchanged trace that the same version of the program kept."""
    key = key_of(path, if_kept=True)
    content = entries.read(entries.named("document", key, what)) if key else None
    return None if content is None else bytes(content)


def save_document(path: str, stamp: str | None, what: str, content: Callable[[], bytes]) -> None:
    """Keep a finished document of `path` as it was at `stamp`; `content` is called only then."""
    _save(path, stamp, ("document", what), lambda: [content()])
