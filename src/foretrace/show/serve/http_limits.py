"""Which requests the viewer answers, and how long and how large they may be.

`Guard` checks a request before anything is looked up: the Host (against DNS rebinding), the Origin
(against other pages), the method, the body (none is read), and the token, the first part of a path.

`BoundedHttp` limits what uvicorn has no setting for. A connection is a stranger's until it names
the token. It must do so within `STRANGER_S`. Strangers count apart: where they are too many, the
oldest is dropped, so that they lock nobody out. A request must arrive within `SLOWEST_S` and
its header within `LARGEST_HEADER`. A client must read an answer at `SLOWEST_BYTES` per `SLOWEST_S`
or faster. A refused client can still read why: the connection stays open for a moment, because
closing it on unread bytes would discard the answer.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http import HTTPStatus
from secrets import compare_digest
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

# One request per connection: a slow client gets one timeout and holds nothing.
HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"x-frame-options": b"DENY",
    b"cache-control": b"no-store",
    b"cross-origin-resource-policy": b"same-origin",
    b"connection": b"close",
}


class Guard:
    """Refuses requests that the application must not see."""

    def __init__(self, inner: Application, token: str, port: int) -> None:
        self.inner, self.token = inner, token
        self.hosts = {f"{name}:{port}".encode() for name in ("127.0.0.1", "localhost", "[::1]")}
        self.strangers: dict[BoundedHttp, None] = {}  # the oldest first

    def names_token(self, path: bytes) -> bool:
        """Whether the token is the first part of a path."""
        first = path.split(b"?")[0].split(b"/")[1:2]
        return bool(first) and compare_digest(first[0], self.token.encode())

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        refused = self.refusal(scope["method"], scope["raw_path"], scope["headers"])
        if scope["http_version"] not in ("1.0", "1.1"):
            refused = 400, "HTTP/1.1 alone"
        if refused is None:
            return await self.inner(scope, receive, _with_headers(send))
        status, words = refused
        headers = {b"content-type": b"text/plain", b"content-length": b"%d" % len(words)}
        headers |= HEADERS | ({b"allow": b"GET"} if status == 405 else {})
        start = {"type": "http.response.start", "status": status, "headers": [*headers.items()]}
        await send(start)
        return await send({"type": "http.response.body", "body": words.encode()})

    def refusal(
        self, method: str, path: bytes, headers: Iterable[tuple[bytes, bytes]]
    ) -> tuple[int, str] | None:
        """The status and the words of a refusal, or None."""
        listed = list(headers)
        hosts = [value for name, value in listed if name == b"host"]
        origins = [value for name, value in listed if name == b"origin"]
        lengths = [value for name, value in listed if name == b"content-length"]
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return 421, "this server answers to 127.0.0.1 alone"
        if any(origin.lower() != b"http://" + hosts[0].lower() for origin in origins):
            return 403, "requests come from this server's own page alone"
        if method != "GET":
            return 405, "GET alone"
        if any(name == b"transfer-encoding" for name, _ in listed) or any(
            length != b"0" for length in lengths
        ):
            return 413, "a request has no body here"
        if not self.names_token(path):
            return 403, "the address lacks this run's token: use the one that was printed"
        return None


def _with_headers(send: Send) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message["headers"]}
            more = [(name, value) for name, value in HEADERS.items() if name not in given]
            message["headers"] = [*message["headers"], *more]
        await send(message)

    return wrapped


SLOWEST_S = 10.0
SLOWEST_BYTES = 64 << 10
LARGEST_HEADER = 32 << 10
LINGER_S = 1.0
STRANGER_S, STRANGER_LINGER_S = 4.8, 0.2  # a request through a tunnel may come late
MOST_LINES = MOST_STRANGERS = 256  # a browser opens six
_DROP_AT_ONCE = struct.pack("ii", 1, 0)  # else the kernel keeps megabytes for the client


class BoundedHttp(H11Protocol):
    """One connection."""

    def connection_made(self, transport: Any) -> None:
        """Start the clock; drop a stranger too many, before the process runs out of files."""
        super().connection_made(transport)
        self._guard: Guard = self.config.app  # type: ignore[assignment]
        self._guard.strangers[self] = None
        if len(self._guard.strangers) > MOST_STRANGERS:
            oldest = next(iter(self._guard.strangers))
            del self._guard.strangers[oldest]
            oldest.transport.abort()
        self._head = b""
        self._refused = False
        self._unsent = 0
        self._timer = self.loop.call_later(STRANGER_S, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._timer.cancel()
        self._guard.strangers.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass a request on, unless its header is too large."""
        if self._refused:
            return
        self._head += data if self.cycle is None else b""
        end = self._head.find(b"\r\n\r\n")
        if (end if end >= 0 else len(self._head)) > LARGEST_HEADER:
            self._refuse(431)
            return
        if self._is_stranger and self._guard.names_token(b"".join(self._head.split(b" ", 2)[1:2])):
            del self._guard.strangers[self]
            self._next(SLOWEST_S, self._late)
            if len(self.connections) - len(self._guard.strangers) > MOST_LINES:
                self.transport.abort()
        super().data_received(data)

    @property
    def _is_stranger(self) -> bool:
        return self in self._guard.strangers

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, or the rest of a request that is not."""
        if self.cycle is not None and self.cycle.response_started:
            self.transport.close()
            return
        if self.cycle is not None:
            self.cycle.disconnected = True  # its answer is this one
        self._refuse(400)

    def _late(self) -> None:
        if self._is_stranger and not self._head:
            self.transport.abort()
        elif self.cycle is None:
            self._refuse(408)

    def _refuse(self, status: int) -> None:
        self._refused = True
        words = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"
        headers = "Connection: close\r\nContent-Length: 0\r\nReferrer-Policy: no-referrer"
        self.transport.write(f"{words}\r\n{headers}\r\n\r\n".encode())
        self.transport.write_eof()
        self._next(STRANGER_LINGER_S if self._is_stranger else LINGER_S, self.transport.abort)

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
