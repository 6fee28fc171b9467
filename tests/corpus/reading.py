"""The reader alone, in this process, at any size of its chunks: rows as read, and the ledger."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from msgspec import field

from foretrace.base.budget import Limits
from foretrace.read.bytestream import ByteStream
from foretrace.read.kineto import parallel
from foretrace.read.kineto.document import Document, ReadAlone, read_document
from foretrace.read.kineto.records import Columns
from foretrace.read.ledger import LedgerBuilder
from foretrace.read.tables import NONE

SIZES = ("CHUNK", "WINDOW", "BLOCK")
Row = tuple[Any, ...]
# places of a row
PH, CAT, PID, TID, NAME, TS, DUR, CORRELATION, EXTERNAL = range(9)


class WholeLedger(LedgerBuilder):
    """Keeps every place: the ledger itself keeps the first few of each code."""

    every: list[tuple[str, int, int]] = field(default_factory=list)

    def note(
        self, code: str, count: int = 1, text: str = "", where: tuple[int, int] | None = None
    ) -> None:
        super().note(code, count, text, where)
        if where is not None and count > 0:
            self.every.append((code, *where))

    def merge(self, other: LedgerBuilder) -> None:
        super().merge(other)
        for code, places in other.places.items():
            self.every += [(code, *where) for where in places]


@dataclass(frozen=True)
class Answer:
    """What was read: rows in file order, the side tables, the header, and the ledger."""

    rows: list[Row]
    sides: dict[str, list[Row]]
    header: dict[str, Any]
    ledger: WholeLedger

    def shown(self) -> dict[str, Any]:
        """Everything that must not depend on how the bytes were cut."""
        counted = self.ledger.seen, self.ledger.repaired, self.ledger.skipped
        return {
            "counted": counted,
            "notes": self.ledger.counts,
            "texts": self.ledger.texts,
            "places": self.ledger.every,
            "rows": [_comparable(row) for row in self.rows],
            "sides": {
                side: [tuple(map(_meaning, row)) for row in sorted(rows, key=_event) if _says(row)]
                for side, rows in self.sides.items()
            },
            "header": self.header,
        }


def _comparable(row: Row) -> Row:
    """Not-a-number is not equal to itself."""
    return tuple(None if value != value else value for value in row)


def _event(row: Row) -> int:
    """Within a chunk a side table goes by kind; the tables go by event."""
    return int(row[0])


def _says(row: Row) -> bool:
    """Whether a row of a side table holds anything: no arguments and empty ones mean the same."""
    return any(value is not None and value == value and value != NONE for value in row[1:])


def _meaning(value: Any) -> Any:
    """JSON text kept as written is what it says: blanks in it mean nothing."""
    if isinstance(value, bytes):
        return tuple(json.loads(text) if text else None for text in value.split(b"\0"))
    return None if value != value else value


@cache
def _sized() -> list[tuple[Any, str]]:
    """Each module of the reader that has a size, and its name."""
    found = [module for name, module in sys.modules.items() if name.startswith("foretrace.read")]
    return [(module, name) for module in found for name in SIZES if hasattr(module, name)]


@contextmanager
def sizes(size: int) -> Iterator[None]:
    """Every chunk, window and block of the reader is `size` bytes."""
    usual = [(module, name, getattr(module, name)) for module, name in _sized()]
    try:
        for module, name, _ in usual:
            setattr(module, name, size)
        yield
    finally:
        for module, name, value in usual:
            setattr(module, name, value)


def read(data: bytes, size: int = 0, limits: Limits | None = None) -> Answer:
    """Read a plain document; with `size`, in chunks and blocks of so many bytes."""
    if not size:
        return _read(iter([data]), limits or Limits())
    with sizes(size):
        blocks = (data[at : at + size] for at in range(0, len(data), size))
        return _read(blocks, limits or Limits())


def _read(blocks: Iterator[bytes], limits: Limits) -> Answer:
    ledger = WholeLedger()
    document = read_document(ByteStream("t.json", blocks, 0), limits, ledger)
    return answer(document, ledger)


def read_apart(data: bytes, piece: int, tail: int) -> Answer:
    """Read a plain document with two workers; only where nothing forbids to fork."""
    ledger, limits = WholeLedger(), Limits()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"PIECE": piece, "TAIL": tail}.items():
            patch.setattr(parallel, name, value)
        patch.setattr(parallel, "cores", lambda: 2)

        def apart(_: ByteStream, buffer: Any, *more: Any) -> list[Columns]:
            return parallel.read_apart(buffer, limits, ledger, *more)

        try:
            stream = ByteStream("t.json", iter([data]), len(data))
            return answer(read_document(stream, limits, ledger, apart), ledger)
        except ReadAlone:
            return read(data)


def answer(document: Document, ledger: WholeLedger) -> Answer:
    rows: list[Row] = []
    sides: dict[str, list[Row]] = {}
    for part in document.columns:
        for side, found in _sides(part, len(rows)):
            sides.setdefault(side, []).extend(found)
        rows += _rows(part)
    return Answer(rows, sides, document.header, ledger)


def _rows(part: Columns) -> list[Row]:
    sites, names = list(part.sites), list(part.names)
    starts: list[Any] = list(part.ts)
    exact = getattr(part, "exact_event", ()), getattr(part, "exact_ns", ())
    for event, ns in zip(*exact, strict=True):
        starts[event] = Fraction(ns, 1000)
    return [
        (*sites[site], names[name], *rest)
        for site, name, *rest in zip(
            part.site, part.name, starts, part.dur, part.correlation, part.external, strict=True
        )
    ]


def _sides(part: Columns, base: int) -> Iterator[tuple[str, list[Row]]]:
    """Each side table, its events counted through the document and its texts written out."""
    texts = list(part.texts)
    for side, columns in part.sides.items():
        values = [
            [texts[item] if item >= 0 else None for item in column]
            if column.typecode == "i"
            else list(column)
            for name, column in columns.items()
            if name != "event"
        ]
        events = [base + event for event in columns["event"]]
        yield side, list(zip(events, *values, strict=True))
