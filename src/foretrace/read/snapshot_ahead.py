"""Reads a large snapshot ahead in a second process.

The other process reads the file, cuts it into windows, and compares each with the known layouts.
This one gets the bytes and the rows, numbers stacks and executes what has no layout. Forking is
done only where it is safe, as for traces.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import IO

import msgspec

from foretrace.base import budget
from foretrace.base.errors import LimitError, TraceError
from foretrace.read.event_layouts import EventLayout, read_window
from foretrace.read.pickles import WINDOW

_Rows = tuple[bytes, bytes, int]
_Head = tuple[_Rows | None, list[int], tuple[str, str, str, int | None, str, bool] | None]

WORTHWHILE = 256 << 20  # bytes that are left to read
_SIZE = 8


class ReadAhead:
    """Windows and their rows out of a forked process, in order."""

    def __init__(
        self, blocks: Iterator[bytes], dropped: list[int], layouts: list[EventLayout]
    ) -> None:
        self.dropped = dropped
        self.rows: _Rows | None = None  # of the last window
        source, sink = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            _child(source, sink, blocks, dropped, layouts)
        os.close(sink)
        self.pipe = os.fdopen(source, "rb", buffering=1 << 20)

    def windows(self) -> Iterator[bytes]:
        """The bytes of each window; `rows` has what was found in it."""
        try:
            while (head := _received(self.pipe)) is not None:
                rows, dropped, problem = msgspec.msgpack.decode(head, type=_Head)
                if problem:
                    code, path, text, offset, hint, limit = problem
                    kind = LimitError if limit else TraceError
                    raise kind(code, path, text, offset=offset, hint=hint)
                self.dropped += dropped
                data = _received(self.pipe) or b""
                budget.took(len(data))
                self.rows = rows
                yield data
        finally:
            self.end()

    def end(self) -> None:
        """Leave no process behind."""
        self.pipe.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def _child(
    source: int,
    sink: int,
    blocks: Iterator[bytes],
    dropped: list[int],
    layouts: list[EventLayout],
) -> None:
    """What the other process does until the end of the file."""
    try:
        os.close(source)
        with os.fdopen(sink, "wb", buffering=0) as pipe:
            try:
                _send_windows(pipe, blocks, dropped, layouts)
            except TraceError as problem:
                limit, it = isinstance(problem, LimitError), problem
                told = (it.code, it.path, it.message, it.offset, it.hint, limit)
                _send(pipe, msgspec.msgpack.encode((None, [], told)))
    finally:
        os._exit(0)


def _send_windows(
    pipe: IO[bytes], blocks: Iterator[bytes], dropped: list[int], layouts: list[EventLayout]
) -> None:
    known = len(dropped)
    while data := _window(blocks):
        rows = read_window(data, 0, layouts)
        packed = rows.packed() if rows else None
        _send(pipe, msgspec.msgpack.encode((packed, dropped[known:], None)))
        _send(pipe, data)
        known = len(dropped)


def _window(blocks: Iterator[bytes]) -> bytes:
    parts, have = [], 0
    while have < WINDOW and (block := next(blocks, b"")):
        parts.append(block)
        have += len(block)
    return b"".join(parts)


def _send(pipe: IO[bytes], data: bytes) -> None:
    for part in (len(data).to_bytes(_SIZE, "little"), data):
        left = memoryview(part)
        while left:
            left = left[pipe.write(left) :]


def _received(pipe: IO[bytes]) -> bytes | None:
    head = pipe.read(_SIZE)
    size = int.from_bytes(head, "little")
    data = pipe.read(size) if len(head) == _SIZE else b""
    return data if head and len(data) == size else None
