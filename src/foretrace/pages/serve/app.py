"""The routes, which requests they get, and how long and how large these may be.

All routes read; a request names a trace by its number in the catalog.

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

import asyncio
import os
import re
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from http import HTTPStatus
from secrets import compare_digest
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from foretrace.base.budget import Limits
from foretrace.base.errors import ForetraceError, UsageError
from foretrace.base.terminal import plain, stem
from foretrace.memory import memory_document
from foretrace.pages import report
from foretrace.pages.export.tables import csv_parts, json_rows
from foretrace.pages.memory_html import Drawing, SnapshotPage, drawings
from foretrace.pages.page import pack, page, policy, seen
from foretrace.pages.serve.library import Catalog, Entry, Library, OpenTrace, PackedTile, Together
from foretrace.read.snapshot import read_snapshot
from foretrace.trace.allocator.view import memory_views
from foretrace.trace.intervals import Ints
from foretrace.trace.query import QueryProcess, QueryResult, check

WIDEST = 16384  # pixels: two screens of 8K
MOST_ROWS = 1000
AT_ONCE = 2  # more of them wait in line

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


def application(library: Library, found: Catalog, token: str) -> Starlette:
    """The application, without its guard."""
    routes, snapshots = _Routes(library, found), Snapshots(found.snapshots, library.limits)
    paths: dict[str, Callable[[Request], Response | Awaitable[Response]]] = {
        "/": routes.viewer,
        "/traces": routes.traces,
        "/trace/{number:count}": routes.facts,
        "/trace/{number:count}/tile": routes.tile,
        "/trace/{number:count}/event/{event:count}": routes.event,
        "/trace/{number:count}/work": routes.work,
        "/trace/{number:count}/search": routes.search,
        "/trace/{number:count}/sql": routes.sql,
        "/trace/{number:count}/table/{name}": routes.table,
        "/trace/{number:count}/file": routes.file,
        "/trace/{number:count}/report": routes.report,
        "/compare": routes.compare,
        "/snapshot/{number:count}/": snapshots.page,
        "/snapshot/{number:count}/device/{device:count}/part": snapshots.part,
    }
    return _routed(paths, token)


def snapshot_application(snapshots: Snapshots, token: str) -> Starlette:
    """The same for one snapshot of torch's allocator."""
    return _routed({"/": snapshots.page, "/device/{device:count}/part": snapshots.part}, token)


def _routed(
    paths: Mapping[str, Callable[[Request], Response | Awaitable[Response]]], token: str
) -> Starlette:
    routes = [Route(f"/{token}{path}", answer, methods=["GET"]) for path, answer in paths.items()]
    handlers = dict.fromkeys((_Pending, ForetraceError, OSError), _in_words)
    return Starlette(routes=routes, exception_handlers=handlers)


class _Count(Convertor[int]):
    """A number in a path: digits, and few enough that every table can hold it."""

    regex = "[0-9]{1,18}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("count", _Count())


class _Pending(Exception):
    """The trace is still being opened; its one argument is the answer that says so."""


class _NotFound(ForetraceError):
    """The request names something that is not there."""


def _in_words(_: Request, problem: Exception) -> Response:
    if isinstance(problem, _Pending):
        return _json(problem.args[0], 202)
    words, status = str(problem), 404 if isinstance(problem, _NotFound | OSError) else 400
    if isinstance(problem, OSError):
        words = f"the file can no longer be read: {problem.strerror}"
    return _json({"state": "failed", "error": words}, status)


def _json(answer: object, status: int = 200) -> Response:
    body = seen(msgspec.json.encode(answer, enc_hook=str).decode())
    return Response(body, status, media_type="application/json")


class _Routes:
    """Plain functions: Starlette runs them in threads, so one slow answer holds up no other."""

    def __init__(self, library: Library, found: Catalog) -> None:
        self.library, self.queries = library, Queries(library.limits)
        named = {"traces": found.entries, "snapshots": found.snapshots}
        self.listed = {
            name: [{"number": e.number, "label": e.label, "bytes": e.bytes} for e in entries]
            for name, entries in named.items()
        }
        self.listed["left_out"] = [{"label": label, "why": why} for label, why in found.left_out]

    def _opened(self, request: Request) -> OpenTrace:
        number = request.path_params["number"]
        if number >= len(self.library.entries):
            raise _NotFound(f"there is no trace {number}")
        opened = self.library.get(number)
        if opened is None:
            raise _Pending(self.library.progress(number))
        return opened

    def viewer(self, request: Request) -> Response:
        text = page("traces", self.listed | {"kind": "served"}, connect="'self'")
        return _page(text, policy("'self'"))

    def traces(self, request: Request) -> Response:
        return _json(self.listed)

    def facts(self, request: Request) -> Response:
        return Response(self._opened(request).facts, media_type="application/json")

    def tile(self, request: Request) -> Response:
        opened, marks = self._opened(request), self._marks(request)
        start, end = _number(request, "from"), _number(request, "to")
        end = max(end, start + 1)
        width = min(max(_number(request, "width"), 1), WIDEST)
        wanted = "tracks" in request.query_params
        place = start, end, width, frozenset(_numbers(request, "tracks")) if wanted else None
        rows, tiles = opened.tiles.boxes(*place), opened.tiles
        boxes = opened.timeline.packed(rows)
        answer = PackedTile(tiles.bands(*place), tiles.strips(*place[:3]), boxes)
        if marks is not None:
            answer.marks = pack({"mark": marks[opened.timeline.event[rows]]})
        return _json(answer)

    def _marks(self, request: Request) -> Ints | None:
        """What the comparison with other traces says of each event, where the request wants it."""
        if "among" not in request.query_params:
            return None
        numbers, number = self._several(request, "among"), request.path_params["number"]
        if number not in numbers:
            raise UsageError("among must name the trace itself")
        return self._together(numbers).marks[numbers.index(number)]

    def _together(self, numbers: tuple[int, ...]) -> Together:
        found = self.library.together(numbers)
        if found is None:
            raise _Pending({"state": "opening"})
        return found

    def _several(self, request: Request, name: str) -> tuple[int, ...]:
        numbers = _numbers(request, name)
        if len(numbers) < 2 or len(set(numbers)) < len(numbers):
            raise UsageError(f"{name} must be the numbers of two traces or more")
        if max(numbers) >= len(self.library.entries):
            raise _NotFound(f"there is no trace {max(numbers)}")
        return numbers

    def event(self, request: Request) -> Response:
        opened = self._opened(request)
        rows = opened.related(request.path_params["event"])
        return _json({"events": opened.timeline.packed(rows)})

    def work(self, request: Request) -> Response:
        return Response(self._opened(request).work, media_type="application/json")

    def search(self, request: Request) -> Response:
        return _json(self._opened(request).search(request.query_params.get("q", "")))

    async def sql(self, request: Request) -> Response:
        """The only answer that may take long: it ends with the client who wants it."""
        opened, query = self._opened(request), request.query_params.get("q", "")
        found = await self.queries.answer(opened, query, request.receive)
        rows = await run_in_threadpool(json_rows, found.frame)
        return _json({"columns": found.frame.columns, "rows": rows, "count": found.count})

    def table(self, request: Request) -> Response:
        """A table of the trace as CSV, to keep."""
        trace, name = self._opened(request).trace, request.path_params["name"].removesuffix(".csv")
        if name not in trace.table_names():
            raise _NotFound(f"tables: {', '.join(trace.table_names())}")
        headers = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
        content = csv_parts(trace.table(name))
        return StreamingResponse(content, media_type="text/csv", headers=headers)

    def file(self, request: Request) -> Response:
        """The trace itself, for Perfetto's page: passed on from window to window."""
        number, entries = request.path_params["number"], self.library.entries
        path = entries[number].path if number < len(entries) else "::"
        if "::" in path:
            raise _NotFound("not a plain file")
        return FileResponse(path, stat_result=os.stat(path), media_type="application/octet-stream")

    def report(self, request: Request) -> Response:
        text = report([self._opened(request).trace], steering=self.library.steering)
        return _page(text, policy("'none'"))

    def compare(self, request: Request) -> Response:
        found = self._together(self._several(request, "traces"))
        return _json({"state": "ready", "compared": found.compared})


class Snapshots:
    """Snapshots of torch's allocator: their pages, and stretches of a history in more detail."""

    def __init__(self, entries: Sequence[Entry], limits: Limits) -> None:
        self.entries, self.limits = entries, limits
        self._reading = threading.Lock()  # one at a time, and the last one stays
        self._read: tuple[int, list[Drawing], str] | None = None

    def opened(self, number: int) -> tuple[list[Drawing], str]:
        """The devices of a snapshot, and its page."""
        if number >= len(self.entries):
            raise _NotFound(f"there is no snapshot {number}")
        with self._reading:
            if self._read is None or self._read[0] != number:
                path = self.entries[number].path
                found = read_snapshot(path, self.limits)
                views = memory_views(found)
                drawn = drawings(memory_document(found, views), views)
                data = SnapshotPage([each.device() for each in drawn], served=True)
                text = page(plain(stem(path)), data, connect="'self'")
                self._read = number, drawn, text
            return self._read[1:]

    def page(self, request: Request) -> Response:
        """The page of a snapshot."""
        text = self.opened(request.path_params.get("number", 0))[1]
        return _page(text, policy("'self'"))

    def part(self, request: Request) -> Response:
        """Some events of a device."""
        drawn = self.opened(request.path_params.get("number", 0))[0]
        device = request.path_params["device"]
        if device >= len(drawn):
            raise _NotFound(f"there is no device {device}")
        events = len(drawn[device].view.history)
        first = min(max(_number(request, "from"), 0), events - 1)
        last = min(max(_number(request, "to"), first + 1), events)
        return _json(drawn[device].part(first, last))


def _page(text: str, allowed: str) -> Response:
    """A page, which nothing may frame."""
    headers = {"Content-Security-Policy": f"{allowed}; frame-ancestors 'none'"}
    return HTMLResponse(text, headers=headers)


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "")
    if not re.fullmatch(r"-?[0-9]{1,18}(?:\.[0-9]{0,18})?", text):
        raise UsageError(f"{name} must be a number")
    return int(float(text)) if "." in text else int(text)


def _numbers(request: Request, name: str) -> tuple[int, ...]:
    text = request.query_params.get(name, "")
    if not re.fullmatch(r"(?:[0-9]{1,9}(?:,[0-9]{1,9})*)?", text):
        raise UsageError(f"{name} must be numbers with commas between them")
    return tuple(int(part) for part in text.split(",") if part)


class Queries:
    """Runs queries; after the first one a process is kept ready, which saves 0.3 s each."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._places = asyncio.Semaphore(AT_ONCE)
        self._spare: QueryProcess | None = None

    async def answer(self, opened: OpenTrace, query: str, receive: Receive) -> QueryResult:
        """The first rows of a result; nothing runs on when the client is gone."""
        check(query)  # before a process is used up
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            async with self._places:
                return await self._run(opened, query, gone)
        finally:
            gone.cancel()

    async def _run(self, opened: OpenTrace, query: str, gone: asyncio.Future[None]) -> QueryResult:
        process, self._spare = self._spare or QueryProcess(), None

        def run() -> QueryResult:
            return process.run(opened.trace, query, self.limits, MOST_ROWS)

        running = asyncio.ensure_future(run_in_threadpool(run))
        try:
            await asyncio.wait((running, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            process.close()
            self._spare = self._spare or QueryProcess()
        return await running


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


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

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        refused = self.refusal(scope["method"], scope["raw_path"], scope["headers"])
        if scope["http_version"] not in ("1.0", "1.1"):
            refused = 400, "HTTP/1.1 alone"
        if refused is None:

            async def with_headers(message: Message) -> None:
                if message["type"] == "http.response.start":
                    given = {name.lower() for name, _ in message["headers"]}
                    more = [(name, value) for name, value in HEADERS.items() if name not in given]
                    message["headers"] = [*message["headers"], *more]
                await send(message)

            return await self.inner(scope, receive, with_headers)
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
