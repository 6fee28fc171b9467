"""Reads a large plain file with one process per core.

The list of events is cut at record boundaries into one range per core. Each range is decoded by a
forked child that runs nothing but the decoder and sends flat arrays back through a pipe. Forking is
done only where it is safe: a single-threaded process in which no native thread pool was started
yet; everywhere else the file is read in this process.
"""

from __future__ import annotations

import os
import sys
import threading
from array import array
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import IO, Any

import msgspec

from foretrace.schema.ledger import LedgerBuilder
from foretrace.sources.bytestream import ByteStream
from foretrace.sources.compressed import BLOCK
from foretrace.sources.kineto.careful import BOUNDARY
from foretrace.sources.kineto.columns import Columns, Pool
from foretrace.sources.kineto.events import Buffer, EventReader
from foretrace.sources.limits import Limits

WORTHWHILE = 24 << 20  # below this a fork costs about what it saves (measured on two cores)
_TAIL = 1 << 20  # the end of the file is always read here, where the tail is understood
_THREADED = ("polars", "torch", "pyarrow")


def read_apart(
    stream: ByteStream,
    buffer: Buffer,
    limits: Limits,
    ledger: LedgerBuilder,
    meanwhile: Callable[[], object],
) -> tuple[list[Columns], Buffer]:
    """Let children read all but the end of a large plain file: their columns, and the buffer for
    the rest. `meanwhile` runs while they read.
    """
    path, size, workers = stream.plain_path, stream.size or 0, min(cores(), 8)
    if path is None or size - buffer.offset < WORTHWHILE or workers < 2 or not _may_fork():
        return [], buffer
    cuts = _cuts(path, buffer.offset, size - _TAIL, workers)
    if len(cuts) < 3:
        return [], buffer
    children = [
        _start(path, start, stop, index == 0, limits)
        for index, (start, stop) in enumerate(pairwise(cuts))
    ]
    meanwhile()
    parts = []
    for pid, pipe in children:
        parts.append(_receive(pipe))
        os.waitpid(pid, 0)
    if sum(len(part[0]) for part in parts if part) > limits.events:
        return [], buffer  # each counted for itself: one process stops where the limit is
    columns, at = [], cuts[-1]
    for start, part in zip(cuts, parts, strict=False):
        if part is None:  # the child died: the rest is read in this process
            at = start
            break
        columns.append(part[0])
        ledger.merge(part[1])
        if part[2] is not None:  # the list ended here: what follows it is not events
            at = part[2]
            break
    return columns, Buffer(_blocks(path, at, size), at)


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _may_fork() -> bool:
    return (
        hasattr(os, "fork")
        and threading.active_count() == 1
        and not any(name in sys.modules for name in _THREADED)
    )


def _cuts(path: str, start: int, stop: int, workers: int) -> list[int]:
    """Where the ranges begin and end, each at a record's end; fewer where none is found."""
    cuts = [start]
    with open(path, "rb") as file:
        for index in range(1, workers + 1):
            at = start + (stop - start) * index // workers
            file.seek(at)
            match = BOUNDARY.search(file.read(4 * BLOCK))
            if match and at + match.start() + 1 > cuts[-1]:
                cuts.append(at + match.start() + 1)
    return cuts


def _blocks(path: str, start: int, stop: int) -> Iterator[bytes]:
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        while start < stop and (block := file.read(min(BLOCK, stop - start))):
            start += len(block)
            yield block


def _start(path: str, start: int, stop: int, first: bool, limits: Limits) -> tuple[int, IO[bytes]]:
    source, sink = os.pipe()
    pid = os.fork()
    if pid:
        os.close(sink)
        return pid, os.fdopen(source, "rb")
    status = 1
    try:
        os.close(source)
        with os.fdopen(sink, "wb") as pipe:
            _send(pipe, *_read_range(path, start, stop, first, limits))
        status = 0
    finally:
        os._exit(status)


def _read_range(
    path: str, start: int, stop: int, first: bool, limits: Limits
) -> tuple[Columns, LedgerBuilder, int | None]:
    import gc

    gc.disable()  # nothing here makes cycles, and this process ends with its answer
    ledger, buffer = LedgerBuilder(), Buffer(_blocks(path, start, stop), start)
    reader = EventReader(buffer, limits, ledger)
    ended = reader.run(first)
    return reader.columns, ledger, buffer.offset if ended else None


def _arrays(columns: Columns) -> list[array[Any]]:
    """Every array of `columns`, in one fixed order."""
    main: list[array[Any]] = [columns.site, columns.name, columns.ts, columns.dur]
    main += [columns.correlation, columns.external]
    return main + [values for side in columns.sides.values() for values in side.values()]


def _pools(columns: Columns) -> tuple[Pool, ...]:
    return columns.sites, columns.names, columns.texts


def _send(pipe: IO[bytes], columns: Columns, ledger: LedgerBuilder, ended: int | None) -> None:
    arrays = _arrays(columns)
    counted = (ledger.seen, ledger.repaired, ledger.skipped)
    note = (ended, *counted, ledger.counts, ledger.texts, ledger.places)
    sizes = [len(values) * values.itemsize for values in arrays]
    pools = [list(pool) for pool in _pools(columns)]
    head = msgspec.msgpack.encode((sizes, pools, (columns.unfinished, columns.coerced), note))
    pipe.write(len(head).to_bytes(8, "little") + head)
    for values in arrays:
        pipe.write(values)


def _receive(pipe: IO[bytes]) -> tuple[Columns, LedgerBuilder, int | None] | None:
    """What `_send` wrote, or None when the child ended before it was done."""
    with pipe:
        size = int.from_bytes(pipe.read(8), "little")
        head = pipe.read(size)
        if not size or len(head) != size:
            return None
        sizes, pools, counted, note = msgspec.msgpack.decode(head)
        columns = Columns()
        columns.unfinished, columns.coerced = counted
        for values, length in zip(_arrays(columns), sizes, strict=True):
            data = pipe.read(length)
            if len(data) != length:
                return None
            values.frombytes(data)
    for pool, items in zip(_pools(columns), pools, strict=True):
        pool.update(
            (tuple(item) if isinstance(item, list) else item, index)
            for index, item in enumerate(items)
        )
    ended, seen, repaired, skipped, counts, texts, places = note
    kept_places = {code: [tuple(where) for where in found] for code, found in places.items()}
    return columns, LedgerBuilder(seen, repaired, skipped, counts, texts, kept_places), ended
