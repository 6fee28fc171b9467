"""The second open is quick: tables as Parquet, keyed by the content of the trace.

The key is a hash of the file's bytes and of `FORMAT`. Hashing a large file takes longer than
opening its cache, so the hash of an unchanged file (same inode, size, and both times to the
nanosecond) is remembered, as Git does; a file of a size that was never kept is not hashed at all.
Entries are written atomically: two processes may write one at once, and a reader sees all or
nothing. What was read from a file that changed meanwhile is not kept. Only traces that take long to
read are kept, and the least recently used entries go first.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretrace.files import replacing, write_bytes

if TYPE_CHECKING:
    from foretrace.schema.tables import Tables

FORMAT = 4  # raise when the tables change
WORTHWHILE_BYTES = 1 << 20  # smaller traces are read as fast as their cache would be
KEEP_BYTES = 4 << 30
KEEP_DOCUMENT_BYTES = 256 << 20  # a few hundred looks; those of older versions go first


def folder() -> Path:
    """`$FORETRACE_CACHE`, else the user's cache folder; never beside the trace."""
    chosen = os.environ.get("FORETRACE_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "foretrace"


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
    from hashlib import sha256

    stamp = stamp_of(path)
    if stamp is None:
        return None
    size = folder() / "sizes" / stamp.partition("-")[0]
    if if_kept and not size.exists():
        return None
    memo = folder() / "seen" / sha256(stamp.encode()).hexdigest()[:32]
    try:
        return memo.read_text()
    except OSError:
        pass
    key = _hash(path)
    _keep(memo, key.encode())
    _keep(size, b"")
    return key


def _hash(path: str) -> str:
    from hashlib import sha256

    digest = sha256(f"foretrace-{FORMAT}\n".encode())
    with open(path, "rb", buffering=0) as file:
        while block := file.read(4 << 20):
            digest.update(block)
    return digest.hexdigest()


def load(path: str) -> Tables | None:
    """The cached tables of `path`, or None."""
    key = key_of(path, if_kept=True)
    place = folder() / "tables" / key if key else None
    if place is None or not place.is_dir():
        return None
    import polars as pl

    from foretrace.schema.ledger import Ledger, Note
    from foretrace.schema.tables import TABLES, Tables

    try:
        meta = json.loads((place / "meta.json").read_bytes())
        frames = {name: pl.read_parquet(place / f"{name}.parquet") for name in TABLES}
        os.utime(place)  # `_trim` goes by this
        notes = tuple(
            Note(code, severity, count, text, tuple(map(tuple, where)))
            for code, severity, count, text, where in meta["notes"]
        )
        seen, kept, repaired, skipped = meta["ledger"]
        ledger = Ledger(seen, kept, repaired, skipped, notes)
        (base, resolution), merged = meta["clock"], tuple(meta["merged"])
        return Tables(meta["source"], frames, meta["header"], ledger, base, resolution, merged)
    except (OSError, ValueError, LookupError, TypeError, pl.exceptions.PolarsError):
        _delete(place)  # damaged: it is written again
        return None


def save(path: str, stamp: str | None, tables: Tables) -> None:
    """Keep the tables of `path` as it was at `stamp`. Failing to write is no error."""
    key = key_of(path)
    if key is None or stamp_of(path) != stamp:
        return
    place = folder() / "tables" / key
    # another process may have been first, or the disk is full
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place) as draft:
            draft.mkdir()
            for name, frame in tables.frames.items():
                frame.write_parquet(draft / f"{name}.parquet", compression="lz4", statistics=False)
            (draft / "meta.json").write_text(json.dumps(_meta(tables)))
        _trim(place.parent, KEEP_BYTES)


def _meta(tables: Tables) -> dict[str, Any]:
    ledger = tables.ledger
    return {
        "source": tables.source,
        "header": tables.header,
        "clock": (tables.base_ns, tables.resolution_ns),
        "merged": tables.merged,
        "ledger": (ledger.seen, ledger.kept, ledger.repaired, ledger.skipped),
        "notes": [
            (note.code, note.severity, note.count, note.text, note.where) for note in ledger.notes
        ],
    }


def _trim(place: Path, most: int) -> None:
    """Delete the least recently used entries until the rest fits."""
    entries = [entry for entry in place.iterdir() if not entry.name.startswith(".")]
    total = 0
    for entry in sorted(entries, key=lambda entry: entry.stat().st_mtime, reverse=True):
        files = list(entry.iterdir()) if entry.is_dir() else [entry]
        total += sum(file.stat().st_size for file in files)
        if total > most:
            _delete(entry)


def _delete(entry: Path) -> None:
    import shutil

    if entry.is_dir():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        entry.unlink(missing_ok=True)


def load_document(path: str, what: str) -> bytes | None:
    """A finished document of an unchanged trace that the same version of the program kept."""
    key = key_of(path, if_kept=True)
    if key is None:
        return None
    try:
        return (folder() / "documents" / f"{key}-{what}.json").read_bytes()
    except OSError:
        return None


def save_document(path: str, stamp: str | None, what: str, content: Callable[[], bytes]) -> None:
    """Keep a finished document of `path` as it was at `stamp`; `content` is called only then."""
    key = key_of(path)
    if key is not None and stamp_of(path) == stamp:
        place = folder() / "documents"
        _keep(place / f"{key}-{what}.json", content())
        with contextlib.suppress(OSError):
            _trim(place, KEEP_DOCUMENT_BYTES)


def _keep(place: Path, content: bytes) -> None:
    """Write a file of the cache; failing is no error."""
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(place, content)
