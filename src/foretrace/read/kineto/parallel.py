"""Decodes a large file with one process per core, packed or not.

This process unpacks the file, cuts it at record boundaries into pieces, and puts the pieces into
shared memory. Forked workers, which run nothing but the decoder, take one piece after the other and
send flat arrays back at the end. Only a few pieces are in memory at once: when every place is
taken, unpacking waits. Forking is done only where it is safe: a single-threaded process in which no
native thread pool was started yet; everywhere else the file is read in this process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from array import array
from collections.abc import Callable, Iterator
from mmap import mmap
from struct import Struct
from typing import IO, Any

import msgspec

from foretrace.base import budget
from foretrace.base.budget import Limits
from foretrace.read.bytestream import BLOCK
from foretrace.read.kineto.damage import Undecided
from foretrace.read.kineto.document import EventReader, ReadAlone
from foretrace.read.kineto.records import Buffer, Columns, Pools, last_boundary
from foretrace.read.ledger import LedgerBuilder


class DecodedPiece(msgspec.Struct):
    """What one piece of a file holds; `number` is its place.

    `whole`: it was understood by itself, and the list goes on behind it.
    """

    number: int
    columns: Columns
    ledger: LedgerBuilder
    whole: bool


def _arrays(columns: Columns) -> list[array[Any]]:
    """Every array of `columns`, in one fixed order."""
    main: list[array[Any]] = [columns.site, columns.name, columns.ts, columns.dur]
    main += [columns.correlation, columns.external, columns.exact_event, columns.exact_ns]
    return main + [values for side in columns.sides.values() for values in side.values()]


def _send(pipe: IO[bytes], pools: Pools, parts: list[DecodedPiece]) -> None:
    """Write what the numbers in the parts of a worker stand for, then the parts."""
    send_message(pipe, [list(pool) for pool in (pools.sites, pools.names, pools.texts)])
    for part in parts:
        columns = part.columns
        counted = (columns.unfinished, columns.coerced)
        data = [memoryview(each).cast("B") if each else b"" for each in _arrays(columns)]
        send_message(pipe, (part.number, part.whole, counted, part.ledger, data))


def send_message(pipe: IO[bytes], head: Any) -> None:
    """Write one message of any kind."""
    data = msgspec.msgpack.encode(head)
    pipe.write(len(data).to_bytes(8, "little"))
    pipe.write(data)


def receive_message(pipe: IO[bytes], kind: Any) -> Any:
    """What `send_message` wrote, or None where the pipe ends."""
    size = int.from_bytes(pipe.read(8), "little")
    data = pipe.read(size)
    return msgspec.msgpack.decode(data, type=kind) if size and len(data) == size else None


PIECE = 4 << 20  # a twentieth of a second of decoding: workers finish together
TAIL = 1 << 20  # the end of the file is always read here, where the tail is understood
_PLACES = 3  # per worker: one is decoded, two wait
_MOST_WORKERS = 8  # unpacking feeds about ten (zlib 670 MB/s, decoding 65 MB/s per core, aarch64)
KEPT_FREE = 24 << 20  # a tenth of the time of decoding went into getting the same pages again
_THREADED = ("polars", "torch", "pyarrow")
_TASK = Struct("<qqqq")  # number of the piece, its place, its length, its offset in the document


class Pieces:
    """Pieces of the document in shared memory; two pipes are the queues of work and of places."""

    def __init__(self, places: int) -> None:
        self.memory = mmap(-1, places * PIECE)
        self.work, self.added = os.pipe()
        self.places, self.freed = os.pipe()
        os.write(self.freed, bytes(range(places)))

    def put(self, number: int, data: memoryview, offset: int) -> None:
        """Wait for a place and fill it."""
        place = os.read(self.places, 1)
        if not place:
            raise ReadAlone  # every worker has died
        self.memory.seek(place[0] * PIECE)
        self.memory.write(data)
        os.write(self.added, _TASK.pack(number, place[0], len(data), offset))

    def take(self) -> Iterator[tuple[int, Buffer]]:
        """Each piece that this worker gets: its number, and its bytes."""
        while task := os.read(self.work, _TASK.size):
            number, place, size, offset = _TASK.unpack(task)
            yield number, Buffer(self._blocks(place * PIECE, place * PIECE + size), offset)
            os.write(self.freed, bytes([place]))

    def _blocks(self, start: int, stop: int) -> Iterator[bytes]:
        for at in range(start, stop, BLOCK):
            yield self.memory[at : min(at + BLOCK, stop)]


def read_apart(
    buffer: Buffer,
    limits: Limits,
    ledger: LedgerBuilder,
    meanwhile: Callable[[], object] = lambda: None,
) -> list[Columns]:
    """Let workers decode all but the end of a large file; `buffer` then holds that end.

    `meanwhile` runs while they decode. Raises `ReadAlone` when they cannot answer for the file.
    """
    workers = min(cores(), _MOST_WORKERS)
    if workers < 2 or not may_fork():
        return []
    pieces = Pieces(workers * _PLACES)
    children = [_start(pieces, limits) for _ in range(workers)]
    os.close(pieces.work)
    os.close(pieces.freed)
    beside = threading.Thread(target=_quietly, args=(meanwhile,))  # unpacking releases the GIL
    beside.start()
    try:
        sent = _feed(pieces, buffer)
        parts = [part for _, pipe in children for part in _answers(pipe)]
    finally:
        beside.join()
        os.close(pieces.places)
        for pid, pipe in children:
            pipe.close()
            end_child(pid)
    return _joined(parts, sent, limits, ledger)


def _quietly(meanwhile: Callable[[], object]) -> None:
    """What fails here is done again, and reported, when it is needed."""
    with contextlib.suppress(Exception):
        meanwhile()


def _feed(pieces: Pieces, buffer: Buffer) -> int:
    """Hand out all but the end of the document; returns the number of pieces."""
    number = 0
    try:
        while True:
            buffer.fill(PIECE + TAIL)
            most = min(PIECE, len(buffer.data) - TAIL)
            cut = last_boundary(buffer.data, 0, most) if most > 0 else 0
            if not cut:  # the end, or a record larger than a piece
                return number
            with memoryview(buffer.data) as data:
                pieces.put(number, data[:cut], buffer.offset)
            buffer.drop(cut)
            number += 1
    except BrokenPipeError:
        raise ReadAlone from None
    finally:
        os.close(pieces.added)


_Written = tuple[list[tuple[Any, ...]], list[Any], list[Any]]
_Part = tuple[int, bool, tuple[int, int], LedgerBuilder, list[memoryview]]


def _answers(pipe: IO[bytes]) -> Iterator[DecodedPiece]:
    """What `_send` wrote, up to the end of the pipe, also where it comes inside a part."""
    written = receive_message(pipe, _Written)
    if written is None:
        return
    pools = Pools()
    for pool, values in zip((pools.sites, pools.names, pools.texts), written, strict=True):
        pool.update((value, number) for number, value in enumerate(values))
    while part := receive_message(pipe, _Part):
        number, whole, counted, ledger, data = part
        columns = Columns(pools)
        columns.unfinished, columns.coerced = counted
        for each, content in zip(_arrays(columns), data, strict=True):
            each.frombytes(content)
        yield DecodedPiece(number, columns, ledger, whole)


def _joined(
    parts: list[DecodedPiece], sent: int, limits: Limits, ledger: LedgerBuilder
) -> list[Columns]:
    """The columns in the order of the file, unless a worker died, or met a limit or the tail."""
    parts.sort(key=lambda part: part.number)
    events = sum(len(part.columns) for part in parts)
    if len(parts) < sent or events > limits.events or not all(part.whole for part in parts):
        raise ReadAlone
    for part in parts:
        ledger.merge(part.ledger)
    return [part.columns for part in parts]


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def may_fork() -> bool:
    """Whether this process has one thread, and no library that starts more."""
    return (
        hasattr(os, "fork")
        and threading.active_count() == 1
        and not any(name in sys.modules for name in _THREADED)
    )


def _start(pieces: Pieces, limits: Limits) -> tuple[int, IO[bytes]]:
    source, sink = os.pipe()
    pid = os.fork()
    if pid:
        os.close(sink)
        return pid, os.fdopen(source, "rb")
    status = 1
    try:
        for unused in (source, pieces.added, pieces.places):
            os.close(unused)
        budget.arm()
        _work(pieces, sink, limits)
        status = 0
    finally:
        os._exit(status)


def _work(pieces: Pieces, sink: int, limits: Limits) -> None:
    """Decode pieces until there are no more, then send what they hold."""
    import gc

    gc.disable()  # nothing here makes cycles, and this process ends with its answer
    bytes(KEPT_FREE)  # glibc gives no smaller block back to the kernel from now on
    pools, parts = Pools(), []
    room = limits.events + 1  # one more than allowed says that the limit was met
    for number, buffer in pieces.take():
        ledger, started = LedgerBuilder(), buffer.offset
        reader = EventReader(buffer, limits, ledger, room, pools, piece=True)
        try:
            whole = not reader.run(first=number == 0)
        except Undecided:
            whole = False
        room -= len(reader.columns)
        parts.append(DecodedPiece(number, reader.columns, ledger, whole))
        budget.took(buffer.offset - started)
    with os.fdopen(sink, "wb") as pipe:
        _send(pipe, pools, parts)


def end_child(pid: int) -> None:
    """End a forked process, and wait until it has ended."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
