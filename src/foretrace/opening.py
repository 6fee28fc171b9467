"""`open`: from a path to a `Trace`, through the cache when one is there."""

from __future__ import annotations

import json
import os
from threading import Thread
from typing import TYPE_CHECKING, Any

from foretrace.sources.folder import candidates, resolve
from foretrace.sources.limits import Limits

if TYPE_CHECKING:
    from foretrace.model.trace import Trace


def open(
    path: str | os.PathLike[str], *, cache: bool = True, limits: Limits | None = None
) -> Trace:
    """Open one trace: a file, a folder or zip that holds one, `archive.zip::member`, or `-` for
    stdin.

    `.json`, gzip and zstd are told by content. What was mended or left out is in `trace.ledger`.
    With `cache`, the tables of large traces are kept as Parquet in the user's cache folder and the
    second open takes them from there. Raises `foretrace.errors.TraceError` when it is not a
    readable trace.
    """
    bounds = limits or Limits()
    cache = cache and is_kept(bounds)
    return _opened(resolve(os.fspath(path), bounds), bounds, use_kept=cache, keep=cache)


def is_kept(limits: Limits) -> bool:
    """What was read under other limits may be another part of the file: neither kept nor taken from
    what was.
    """
    return limits == Limits()


def _opened(wanted: str, bounds: Limits, *, use_kept: bool, keep: bool) -> Trace:
    from foretrace import sources
    from foretrace.sources import cache as store

    tables = store.load(wanted) if use_kept else None
    if tables is None:
        stamp = store.stamp_of(wanted)
        tables = sources.read(wanted, bounds, _load_the_rest)
        if keep:
            store.save(wanted, stamp, tables)
    from foretrace.model.trace import Trace

    return Trace(tables, shown(wanted))


def shown(path: str) -> str:
    """A path as text: file names need not be UTF-8, and documents must be."""
    return os.fsencode(path).decode(errors="replace")


def _load_the_rest() -> None:
    """Import what a look needs; called while other processes decode a large file."""
    from foretrace import analyses, devices, families  # noqa: F401
    from foretrace.look import look  # noqa: F401
    from foretrace.model import costs
    from foretrace.sources.kineto import assemble  # noqa: F401

    families.every()
    devices.every()
    costs.kinds()


def open_all(
    folder: str | os.PathLike[str], *, cache: bool = True, limits: Limits | None = None
) -> list[Trace]:
    """Every trace in a folder or zip, in order of path; each ledger also says what is odd about the
    set as a whole.
    """
    bounds = limits or Limits()
    found = candidates(os.fspath(folder), bounds)
    paths = [os.fspath(folder)] if found is None else found
    opened = [open(path, cache=cache, limits=bounds) for path in paths]
    from foretrace.model.sets import note_set

    note_set(opened)
    return opened


def look_document(path: str, *, cache: bool = True, limits: Limits | None = None) -> dict[str, Any]:
    """`{"look": the contract's document, ...}` of one trace; an unchanged large trace is answered
    from the cache.

    Nothing heavy is imported for a cached answer, so looking twice is instant.
    """
    bounds = limits or Limits()
    wanted, cache = resolve(path, bounds), cache and is_kept(bounds)
    kept = kept_document(wanted) if cache else None
    return _made_document(wanted, bounds, cache) if kept is None else kept


def kept_document(wanted: str) -> dict[str, Any] | None:
    """The document of one trace as an earlier look left it in the cache."""
    from foretrace.sources import cache as store

    kept = store.load_document(wanted, _program()) if store.stamp_of(wanted) else None
    try:
        document: dict[str, Any] = json.loads(kept or b"{}")
        document["look"]["trace"]["path"] = shown(wanted)
    except (ValueError, LookupError, TypeError):
        return None  # not there, or damaged
    return document


def _made_document(wanted: str, bounds: Limits, cache: bool) -> dict[str, Any]:
    from foretrace.sources import cache as store

    stamp = store.stamp_of(wanted)
    # the document is kept: tables when they are asked for
    trace = _opened(wanted, bounds, use_kept=cache, keep=False)
    from foretrace.look import full_look

    hashing = Thread(target=store.key_of, args=(wanted,)) if cache and stamp else None
    if hashing:
        hashing.start()  # looking keeps one core busy; the key is ready when the document is
    document = full_look(trace)
    # what a set is told by
    document["run"] = {"world_size": trace.about.world_size, "base_ns": trace.tables.base_ns}
    if hashing:
        hashing.join()
        store.save_document(wanted, stamp, _program(), lambda: json.dumps(document).encode())
    return document


def _program() -> str:
    """The version of the code that makes documents: a changed file anywhere in the package makes
    old ones stale.
    """
    from foretrace.version import __version__

    newest = 0
    for folder, _, names in os.walk(os.path.dirname(__file__)):
        newest = max(
            [
                newest,
                *(
                    os.stat(os.path.join(folder, name)).st_mtime_ns
                    for name in names
                    if name.endswith(".py")
                ),
            ]
        )
    return f"look-{__version__}-{newest}"
