"""Decoded columns and their ledger as bytes: how a worker process answers.

Every column is a flat array, so a part is one small head and a few large buffers.
"""

from __future__ import annotations

from array import array
from typing import IO, Any

import msgspec

from foretrace.read.kineto.columns import Columns, Pool
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


def _pools(columns: Columns) -> tuple[Pool, ...]:
    return columns.sites, columns.names, columns.texts


def send(pipe: IO[bytes], part: DecodedPiece) -> None:
    """Write one part."""
    columns = part.columns
    arrays = _arrays(columns)
    sizes = [len(values) * values.itemsize for values in arrays]
    pools = [list(pool) for pool in _pools(columns)]
    counted = (columns.unfinished, columns.coerced)
    head = msgspec.msgpack.encode((part.number, part.whole, sizes, pools, counted, part.ledger))
    pipe.write(len(head).to_bytes(8, "little") + head)
    for values in arrays:
        pipe.write(values)


_Head = tuple[int, bool, list[int], list[list[Any]], tuple[int, int], LedgerBuilder]


def receive(pipe: IO[bytes]) -> DecodedPiece | None:
    """What `send` wrote, or None at the end of the pipe, also when it comes inside a part."""
    size = int.from_bytes(pipe.read(8), "little")
    head = pipe.read(size)
    if not size or len(head) != size:
        return None
    number, whole, sizes, pools, counted, ledger = msgspec.msgpack.decode(head, type=_Head)
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
    return DecodedPiece(number, columns, ledger, whole)
