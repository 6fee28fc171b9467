"""HTTP as uvicorn speaks it, with bounds on how long a client may take and how much it may send.

A request must be there within `SLOWEST_S` and its header within `LARGEST_HEADER`. An answer must be
taken at `SLOWEST_BYTES` each `SLOWEST_S` or faster. Whoever is refused can still read why: the line
stays open for a moment, because closing it on unread bytes would discard the answer.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

SLOWEST_S = 10.0
SLOWEST_BYTES = 64 << 10
LARGEST_HEADER = 32 << 10
LINGER_S = 1.0
MOST_LINES = 256  # a browser opens six
_DROP_AT_ONCE = struct.pack("ii", 1, 0)  # else the kernel keeps megabytes for the client


class Prompt(H11Protocol):
    """One connection."""

    def connection_made(self, transport: Any) -> None:
        """Start the clock; a line too many is dropped, before the process runs out of files."""
        super().connection_made(transport)
        if len(self.connections) > MOST_LINES:
            transport.abort()
        self._head = b""
        self._refused = False
        self._unsent = 0
        self._timer = self.loop.call_later(SLOWEST_S, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass a request on, unless its header is too large."""
        if self._refused:
            return
        self._head += data if self.cycle is None else b""
        end = self._head.find(b"\r\n\r\n")
        if (end if end >= 0 else len(self._head)) > LARGEST_HEADER:
            self._refuse(431)
        else:
            super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, or the rest of a request that is not."""
        if self.cycle is not None and self.cycle.response_started:
            self.transport.close()
            return
        if self.cycle is not None:
            self.cycle.disconnected = True  # its answer is this one
        self._refuse(400)

    def _late(self) -> None:
        if self.cycle is None:
            self._refuse(408)

    def _refuse(self, status: int) -> None:
        self._refused = True
        words = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"
        headers = "Connection: close\r\nContent-Length: 0\r\nReferrer-Policy: no-referrer"
        self.transport.write(f"{words}\r\n{headers}\r\n\r\n".encode())
        self.transport.write_eof()
        self._next(LINGER_S, self.transport.abort)

    def pause_writing(self) -> None:
        """The client takes less than there is to send."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """The client has taken it."""
        super().resume_writing()
        self._timer.cancel()

    def on_response_complete(self) -> None:
        """The last of an answer is to be sent."""
        super().on_response_complete()
        self._watch()

    def _watch(self) -> None:
        self._unsent = self.transport.get_write_buffer_size()
        self._next(SLOWEST_S, self._still_unsent)

    def _still_unsent(self) -> None:
        if self._unsent - self.transport.get_write_buffer_size() < SLOWEST_BYTES:
            line = self.transport.get_extra_info("socket")
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DROP_AT_ONCE)
            self.transport.abort()
        else:
            self._watch()

    def _next(self, seconds: float, what: Callable[[], None]) -> None:
        self._timer.cancel()
        self._timer = self.loop.call_later(seconds, what)
