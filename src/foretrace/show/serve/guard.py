"""Which requests are answered: those of our own page, on this machine, with this run's token.

Checked before anything is looked up: the Host (against rebinding of names), the Origin (against
other pages), the method, a body (there is none to read), and the token, the first part of a path.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from secrets import compare_digest
from typing import Any

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
    """Stands before the application."""

    def __init__(self, inner: Application, token: str, port: int) -> None:
        self.inner, self.token = inner, token
        self.hosts = {f"{name}:{port}".encode() for name in ("127.0.0.1", "localhost", "[::1]")}

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
        first = path.split(b"?")[0].split(b"/")[1:2]
        if not first or not compare_digest(first[0], self.token.encode()):
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
