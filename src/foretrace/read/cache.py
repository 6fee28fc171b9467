"""The second open is quick: tables as Parquet, kept for a file as it is.

An entry is named by `FORMAT`, so that two versions of the program use one folder without meeting,
and by what changes when the file does: its inode, its size, and both times to the nanosecond.
Entries are written atomically: two processes may write one at once, and a reader sees all or
nothing. What was read from a file that changed meanwhile is not kept. Only traces that take long to
read are kept. No failure of the cache is an error: the trace is read again.

An entry is one file whose name is a hash, so that nothing read from a file becomes part of a path.
It ends in a checksum of its name and content: a damaged entry is deleted, and counts as missing.
The folder and its files belong to this user alone. What belongs to somebody else is not used.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from foretrace.base import budget
from foretrace.base.errors import warn
from foretrace.base.files import clear_abandoned, replacing
from foretrace.base.patterns import regex
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
    name = named("tables", FORMAT, stamp)
    content = read(name) if stamp else None
    if content is None:
        return None
    import polars as pl

    budget.took(UNPACKED * os.path.getsize(path))  # first: the tables of a large trace are large
    try:
        return _unpacked(content)
    except (ValueError, LookupError, TypeError, pl.exceptions.PolarsError):
        discard(name)  # another program's: it is written again
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
        write(named("tables", FORMAT, stamp), _packed(tables))


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
    content = read(named("document", FORMAT, stamp, what)) if stamp else None
    return None if content is None else bytes(content)


def save_document(path: str, stamp: str | None, what: str, content: Callable[[], bytes]) -> None:
    """Keep a finished document of `path` as it was at `stamp`; `content` is called only then."""
    if stamp is not None and stamp_of(path) == stamp:
        write(named("document", FORMAT, stamp, what), [content()])


FOLDER = "foretrace-entries"  # in whatever folder the user chose, which may hold other files
KEEP_BYTES = 4 << 30
BLOCK = 4096  # what a small file takes on disk
DIGEST = 32
HOUR_S = 3600
_NAME = regex(r"[0-9a-f]{64}\.[a-z]+")


def folder() -> Path | None:
    """`$FORETRACE_CACHE`, else the user's cache folder; None for a user who has no home."""
    chosen = os.environ.get("FORETRACE_CACHE")
    if chosen:
        return Path(chosen)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "foretrace"
    except RuntimeError:  # no HOME, and no such user
        return None


def named(kind: str, *parts: object) -> str:
    """The name of the entry of that kind for those parts."""
    from hashlib import sha256  # brings OpenSSL

    text = "\n".join((kind, *map(str, parts)))
    return f"{sha256(text.encode()).hexdigest()}.{kind}"


def read(name: str) -> memoryview | None:
    """The content of an entry; None where there is none that can be trusted."""
    from hashlib import sha256

    place = _place()
    if place is None:
        return None
    try:
        with open(place / name, "rb", opener=_own) as file:
            data = memoryview(file.read())
    except OSError:
        return None
    with suppress(OSError):  # on a read-only disk
        os.utime(place / name)  # `_trim` goes by this
    content, digest = data[:-DIGEST], sha256(name.encode())
    digest.update(content)
    if data[-DIGEST:] != digest.digest():
        discard(name)
        return None
    return content


def write(name: str, parts: Iterable[bytes]) -> None:
    """Keep an entry, then delete the least recently used. Failing to write is no error."""
    from hashlib import sha256

    place, digest = _place(make=True), sha256(name.encode())
    if place is None:
        return
    with suppress(OSError, MemoryError):
        with replacing(place / name) as draft, open(draft, "xb", opener=_own) as file:
            for part in parts:
                digest.update(part)
                file.write(part)
            file.write(digest.digest())
        _trim(place)


def discard(name: str) -> None:
    """Delete an entry that cannot be used."""
    place = _place()
    with suppress(OSError):
        if place is not None:
            (place / name).unlink()


def _place(*, make: bool = False) -> Path | None:
    """The folder of the entries; None where there is none, or somebody else's."""
    root = folder()
    if root is None:
        return None
    place = root / FOLDER
    try:
        if make:
            root.mkdir(0o700, parents=True, exist_ok=True)
        if _refused(root, root.stat()):
            return None
        if make:
            place.mkdir(0o700, exist_ok=True)
        if _refused(place, known := place.lstat()):  # a link could lead to files of other programs
            return None
        if stat.S_IMODE(known.st_mode) & 0o077:
            place.chmod(0o700)
    except OSError:
        return None
    return place


def _refused(place: Path, known: os.stat_result) -> bool:
    """Say in one line why a folder is not used: what others can change decides no answer."""
    if _foreign(known):
        why = "belongs to another user"
    elif not stat.S_ISDIR(known.st_mode):
        why = "is not a folder"
    else:
        return False
    warn(f"the cache is not used: {place} {why}; set FORETRACE_CACHE to a folder of your own")
    return True


def _foreign(known: os.stat_result) -> bool:
    return hasattr(os, "geteuid") and known.st_uid != os.geteuid()


def _own(path: str, flags: int) -> int:
    """Open a plain file of this user's, or make one that nobody else can read."""
    safe = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe has no writer
    opened = os.open(path, flags | safe, 0o600)
    known = os.fstat(opened)
    if _foreign(known) or not stat.S_ISREG(known.st_mode):
        os.close(opened)
        raise PermissionError(f"{path} is no file of this user's")
    return opened


def _trim(place: Path) -> None:
    """Delete drafts of processes that were killed, and what does not fit, oldest use first."""
    clear_abandoned(place)
    latest, found, total = time.time() + HOUR_S, [], 0
    for entry in os.scandir(place):
        if _NAME.fullmatch(entry.name):
            known = entry.stat(follow_symlinks=False)
            # a use in the future was before the clock went back
            used = known.st_mtime if known.st_mtime <= latest else 0
            found.append((used, max(known.st_size, BLOCK), entry.path))
    for _, size, path in sorted(found, reverse=True):
        total += size
        if total > KEEP_BYTES:
            os.unlink(path)
