"""Starts the viewer: on the loopback addresses, on a free port, with a token of this run alone."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from foretrace.base.budget import Limits
from foretrace.base.errors import MissingError, UsageError
from foretrace.look.steering import Steering
from foretrace.pages.serve.library import Entry, Library, catalog
from foretrace.read.door import Opened

if TYPE_CHECKING:
    import uvicorn

    from foretrace.pages.serve.app import Application


Running = tuple["uvicorn.Server", list[socket.socket], str]


@contextmanager
def packages() -> Iterator[None]:
    """Imports of optional packages; one that is missing is named before anything is read."""
    try:
        import uvicorn as uvicorn

        yield
    except ImportError as problem:
        words = f"the viewer needs {problem.name}: pip install 'foretrace[serve]'"
        raise MissingError(words) from None


def prepare(
    root: str | Opened,
    *,
    port: int = 0,
    limits: Limits | None = None,
    cache: bool = True,
    steering: Steering | None = None,
) -> Running:
    """The server of traces, the sockets it will listen on, and its address."""
    with packages():
        from foretrace.pages.serve.app import application

    bounds = limits or Limits()
    found = catalog(root, bounds)
    library = Library(found.entries, bounds, cache, steering)
    return start(lambda token: application(library, found, token), port)


def prepare_snapshot(path: str, *, port: int = 0, limits: Limits | None = None) -> Running:
    """The same for a snapshot of torch's allocator, which is read first."""
    with packages():
        from foretrace.pages.serve.app import Snapshots, snapshot_application

    snapshots = Snapshots([Entry(0, "", path, 0)], limits or Limits())
    snapshots.opened(0)
    return start(lambda token: snapshot_application(snapshots, token), port)


def start(made: Callable[[str], Application], port: int) -> Running:
    """Guard an application, which is made for a token, and configure its server."""
    import uvicorn

    from foretrace.pages.serve.app import LARGEST_HEADER, BoundedHttp, Guard

    sockets = listen(port)
    number = sockets[0].getsockname()[1]
    token = secrets.token_urlsafe(24)
    config = uvicorn.Config(
        Guard(made(token), token, number),
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
