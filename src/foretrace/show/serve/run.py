"""Starts the viewer: on the loopback addresses, on a free port, with a token of this run alone."""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from foretrace.base.budget import Limits
from foretrace.base.errors import MissingError, UsageError
from foretrace.show.serve.library import Library, catalog

if TYPE_CHECKING:
    import uvicorn


def prepare(
    root: str, *, port: int = 0, limits: Limits | None = None, cache: bool = True
) -> tuple[uvicorn.Server, list[socket.socket], str]:
    """The server, the sockets it will listen on, and its address."""
    try:
        import uvicorn

        from foretrace.show.serve.app import application
        from foretrace.show.serve.http_limits import LARGEST_HEADER, BoundedHttp, Guard
    except ImportError as problem:
        words = f"the viewer needs {problem.name}: pip install 'foretrace[serve]'"
        raise MissingError(words) from None

    bounds = limits or Limits()
    found = catalog(root, bounds)
    sockets = listen(port)
    number = sockets[0].getsockname()[1]
    token = secrets.token_urlsafe(24)
    library = Library(found.entries, bounds, cache)
    guarded = Guard(application(library, found.left_out, token), token, number)
    config = uvicorn.Config(
        guarded,
        http=BoundedHttp,
        ws="none",
        lifespan="off",
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=5,
        h11_max_incomplete_event_size=LARGEST_HEADER,
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config), sockets, f"http://127.0.0.1:{number}/{token}/"


def listen(port: int) -> list[socket.socket]:
    """A socket on 127.0.0.1, and one on ::1 with the same port where the machine has it."""
    first = socket.socket(socket.AF_INET)
    first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        first.bind(("127.0.0.1", port))
    except OSError as problem:
        words = f"port {port} is not available: {problem}; omit --port to use a free one"
        raise UsageError(words) from None
    sockets = [first]
    with suppress(OSError):  # no IPv6 here, or that port is taken there: 127.0.0.1 is enough
        second = socket.socket(socket.AF_INET6)
        second.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        second.bind(("::1", first.getsockname()[1]))
        sockets.append(second)
    for each in sockets:
        each.listen(128)  # from here on a browser waits for its answer instead of being turned away
    return sockets
