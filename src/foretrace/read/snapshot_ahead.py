"""Reads a large snapshot ahead in a second process.

The other process reads the file, cuts it into windows, and compares each with the known layouts.
This one gets the bytes and the rows, numbers stacks and executes what has no layout. Both lie in
shared memory: through a pipe they took a quarter of all the work. Layouts that this process learns
go to the other one. Forking is done only where it is safe, as for traces.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from mmap import mmap

import msgspec
import numpy as np

from foretrace.base import budget
from foretrace.base.errors import LimitError, TraceError
from foretrace.read.event_layouts import EventLayout, EventRows, add_layout, read_window
from foretrace.read.kineto.parallel import end_child, receive_message, send_message
from foretrace.read.pickles import WINDOW

WORTHWHILE = 256 << 20  # bytes that are left to read
PLACE = 16 << 20  # of a window and its rows; memory that nothing is written to takes none
PLACES = 4


class _Head(msgspec.Struct):
    """What lies in one place: a window, then its rows (none where they would not fit)."""

    place: int
    size: int
    rows: tuple[int, int, int] = (0, 0, 0)  # how many, written texts of one, and breaks
    dropped: list[int] = []
    problem: tuple[str, str, str, int | None, str, bool] | None = None

    @property
    def table(self) -> int:
        """Where the rows begin in the shared memory."""
        return self.place * PLACE + (self.size + 7) // 8 * 8


class ReadAhead:
    """Windows and their rows out of a forked process, in order."""

    def __init__(
        self, blocks: Iterator[bytes], dropped: list[int], layouts: list[EventLayout]
    ) -> None:
        self.dropped = dropped
        self.head: _Head | None = None  # of the last window
        self.fresh: list[EventLayout] = []  # layouts that the other process does not know yet
        self.memory = mmap(-1, PLACES * PLACE)
        source, sink = os.pipe()
        places, freed = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(source)
            os.close(freed)
            _child(self.memory, places, sink, blocks, dropped, layouts)
        os.close(places)
        os.close(sink)
        self.pipe, self.freed = os.fdopen(source, "rb"), os.fdopen(freed, "wb", buffering=0)

    def windows(self) -> Iterator[bytes]:
        """The bytes of each window; `rows` has what was found in it."""
        try:
            for place in range(PLACES):
                self._free(place)
            while head := receive_message(self.pipe, _Head):
                if head.problem:
                    code, path, text, offset, hint, limit = head.problem
                    kind = LimitError if limit else TraceError
                    raise kind(code, path, text, offset=offset, hint=hint)
                self.dropped += head.dropped
                budget.took(head.size)
                self.head = head
                at = head.place * PLACE
                yield self.memory[at : at + head.size]
                self._free(head.place)
        finally:
            self.end()

    def _free(self, place: int) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has ended, and needs no place
            send_message(self.freed, (place, self.fresh))
        self.fresh = []

    def rows(self, by: int) -> EventRows | None:
        """The rows of the last window, which has `by` bytes before it; good until the next."""
        head = self.head
        if not head or not head.rows[0]:
            return None
        table = np.frombuffer(self.memory, np.int64)[head.table // 8 :]
        return EventRows.unpacked(table, *head.rows, by)

    def end(self) -> None:
        """Leave no process behind."""
        self.pipe.close()
        self.freed.close()
        end_child(self.pid)


def _child(
    memory: mmap,
    places: int,
    sink: int,
    blocks: Iterator[bytes],
    dropped: list[int],
    layouts: list[EventLayout],
) -> None:
    """What the other process does until the end of the file."""
    known = len(dropped)
    try:
        with os.fdopen(places, "rb") as freed, os.fdopen(sink, "wb", buffering=0) as pipe:
            try:
                while asked := receive_message(freed, tuple[int, list[EventLayout]]):
                    for layout in asked[1]:
                        add_layout(layouts, layout)
                    head = _fill(memory, asked[0], blocks, layouts)
                    if head is None:
                        return
                    head.dropped, known = dropped[known:], len(dropped)
                    send_message(pipe, head)
            except TraceError as it:
                told = (it.code, it.path, it.message, it.offset, it.hint)
                send_message(pipe, _Head(0, 0, problem=(*told, isinstance(it, LimitError))))
    finally:
        os._exit(0)


def _fill(
    memory: mmap, place: int, blocks: Iterator[bytes], layouts: list[EventLayout]
) -> _Head | None:
    """Put a window and its rows into a place; None at the end of the file."""
    start = at = place * PLACE
    while at - start < WINDOW and (block := next(blocks, b"")):
        memory[at : at + len(block)] = block
        at += len(block)
    if at == start:
        return None
    head = _Head(place, at - start)
    rows = read_window(memoryview(memory)[start:at], 0, layouts)
    columns = rows.packed() if rows else []
    if rows and sum(map(len, columns)) <= (start + PLACE - head.table) // 8:
        head.rows = len(rows.at), len(rows.texts), len(rows.breaks)
        room = np.frombuffer(memory, np.int64)[head.table // 8 :]
        np.concatenate(columns, out=room[: sum(map(len, columns))])
    return head
