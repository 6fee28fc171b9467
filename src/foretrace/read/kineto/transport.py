"""Decoded columns and their ledger as bytes: how a worker process answers.

Every column is a flat array, so a part is one small head and a few large buffers.
"""

from __future__ import annotations

from array import array
from typing import IO, Any, TypeVar

import msgspec

from foretrace.read.kineto.columns import Columns, Pools
from foretrace.schema.ledger import LedgerBuilder


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


def send_pools(pipe: IO[bytes], pools: Pools) -> None:
    """Write what the numbers in all parts of this worker stand for."""
    _send(pipe, [list(pool) for pool in (pools.sites, pools.names, pools.texts)])


def send(pipe: IO[bytes], part: DecodedPiece) -> None:
    """Write one part."""
    columns = part.columns
    arrays = _arrays(columns)
    sizes = [len(values) * values.itemsize for values in arrays]
    counted = (columns.unfinished, columns.coerced)
    _send(pipe, (part.number, part.whole, sizes, counted, part.ledger))
    for values in arrays:
        pipe.write(values)


def _send(pipe: IO[bytes], head: Any) -> None:
    data = msgspec.msgpack.encode(head)
    pipe.write(len(data).to_bytes(8, "little") + data)


_Written = tuple[list[tuple[Any, ...]], list[str | None], list[Any]]
_Head = tuple[int, bool, list[int], tuple[int, int], LedgerBuilder]
_Kind = TypeVar("_Kind")


def receive_pools(pipe: IO[bytes]) -> Pools | None:
    """What `send_pools` wrote, or None where the pipe ends."""
    written = _receive(pipe, _Written)
    if written is None:
        return None
    pools = Pools()
    for pool, values in zip((pools.sites, pools.names, pools.texts), written, strict=True):
        pool.update(zip(values, range(len(values)), strict=True))
    return pools


def receive(pipe: IO[bytes], pools: Pools) -> DecodedPiece | None:
    """What `send` wrote, or None at the end of the pipe, also when it comes inside a part."""
    head = _receive(pipe, _Head)
    if head is None:
        return None
    number, whole, sizes, counted, ledger = head
    columns = Columns(pools)
    columns.unfinished, columns.coerced = counted
    for values, length in zip(_arrays(columns), sizes, strict=True):
        if not length:
            continue
        data = pipe.read(length)
        if len(data) != length:
            return None
        values.frombytes(data)
    return DecodedPiece(number, columns, ledger, whole)


def _receive(pipe: IO[bytes], kind: type[_Kind]) -> _Kind | None:
    size = int.from_bytes(pipe.read(8), "little")
    data = pipe.read(size)
    return msgspec.msgpack.decode(data, type=kind) if size and len(data) == size else None
