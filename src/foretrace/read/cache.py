"""The second open is quick: tables as Parquet, kept for a file as it is.

An entry is named by `FORMAT`, so that two versions of the program use one folder without meeting,
and by what changes when the file does: its inode, its size, and both times to the nanosecond.
Entries are written atomically: two processes may write one at once, and a reader sees all or
nothing. What was read from a file that changed meanwhile is not kept. Only traces that take long to
read are kept. No failure of the cache is an error: the trace is read again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from foretrace.base import budget
from foretrace.read import entries
from foretrace.read.bytestream import UNPACKED

if TYPE_CHECKING:
    from foretrace.read.tables import Tables

FORMAT = 13  # raise when the tables or the entries change
WORTHWHILE_BYTES = 1 << 20  # smaller traces are read as fast as their cache would be
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


def load(path: str) -> Tables | None:
    """The cached tables of `path`, or None."""
    stamp = stamp_of(path)
    name = entries.named("tables", FORMAT, stamp)
    content = entries.read(name) if stamp else None
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

    from foretrace.read.ledger import Ledger
    from foretrace.read.tables import Tables

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
    if stamp is not None and stamp_of(path) == stamp:
        entries.write(entries.named("tables", FORMAT, stamp), _packed(tables))


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
    stamp = stamp_of(path)
    content = entries.read(entries.named("document", FORMAT, stamp, what)) if stamp else None
    return None if content is None else bytes(content)


def save_document(path: str, stamp: str | None, what: str, content: Callable[[], bytes]) -> None:
    """Keep a finished document of `path` as it was at `stamp`; `content` is called only then."""
    if stamp is not None and stamp_of(path) == stamp:
        entries.write(entries.named("document", FORMAT, stamp, what), [content()])
