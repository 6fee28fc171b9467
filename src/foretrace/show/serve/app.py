"""The routes. All of them read; a request names a trace by its number in the catalog."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from foretrace.base.budget import Limits
from foretrace.base.errors import ForetraceError, UsageError
from foretrace.model.intervals import Ints
from foretrace.model.query import QueryProcess, QueryResult, check
from foretrace.show.html import report
from foretrace.show.html.page import pack, page, policy
from foretrace.show.render.export import csv_parts, json_rows
from foretrace.show.serve.library import Library, Together
from foretrace.show.serve.navigation import OpenTrace
from foretrace.show.serve.tiles import PackedTile

WIDEST = 16384  # pixels: two screens of 8K
MOST_ROWS = 1000
AT_ONCE = 2  # more of them wait in line

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


def application(library: Library, left_out: list[tuple[str, str]], token: str) -> Starlette:
    """The application, without its guard; `left_out`: (label, why) of unreadable files."""
    routes = _Routes(library, left_out)
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
    }
    found = [Route(f"/{token}{path}", answer, methods=["GET"]) for path, answer in paths.items()]
    handlers = {_Pending: _in_progress, ForetraceError: in_words, OSError: _unreadable}
    return Starlette(routes=found, exception_handlers=handlers)  # type: ignore[arg-type]


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


class NotFound(ForetraceError):
    """The request names something that is not there."""


def _in_progress(_: Request, pending: _Pending) -> Response:
    return json_answer(pending.args[0], 202)


def in_words(_: Request, problem: ForetraceError) -> Response:
    """What is wrong with a request."""
    status = 404 if isinstance(problem, NotFound) else 400
    return json_answer({"state": "failed", "error": str(problem)}, status)


def _unreadable(_: Request, problem: OSError) -> Response:
    words = f"the file can no longer be read: {problem.strerror}"
    return json_answer({"state": "failed", "error": words}, 404)


def json_answer(answer: object, status: int = 200) -> Response:
    """A document."""
    body = msgspec.json.encode(answer, enc_hook=str)
    return Response(body, status, media_type="application/json")


class _Routes:
    """Plain functions: Starlette runs them in threads, so one slow answer holds up no other."""

    def __init__(self, library: Library, left_out: list[tuple[str, str]]) -> None:
        self.library, self.queries = library, Queries(library.limits)
        entries = library.entries
        self.listed = {
            "traces": [{"number": e.number, "label": e.label, "bytes": e.bytes} for e in entries],
            "left_out": [{"label": label, "why": why} for label, why in left_out],
        }

    def _opened(self, request: Request) -> OpenTrace:
        number = request.path_params["number"]
        if number >= len(self.library.entries):
            raise NotFound(f"there is no trace {number}")
        opened = self.library.get(number)
        if opened is None:
            raise _Pending(self.library.progress(number))
        return opened

    def viewer(self, request: Request) -> Response:
        text = page("traces", self.listed, connect="'self'", main="main")
        return page_answer(text, policy("'self'", "main"))

    def traces(self, request: Request) -> Response:
        return json_answer(self.listed)

    def facts(self, request: Request) -> Response:
        return Response(self._opened(request).facts, media_type="application/json")

    def tile(self, request: Request) -> Response:
        opened, marks = self._opened(request), self._marks(request)
        start, end = _range(request)
        width = min(max(number_of(request, "width"), 1), WIDEST)
        place = start, end, width, _tracks(request)
        rows, tiles = opened.tiles.boxes(*place), opened.tiles
        boxes = opened.timeline.packed(rows)
        answer = PackedTile(tiles.bands(*place), tiles.strips(*place[:3]), boxes)
        if marks is not None:
            answer.marks = pack({"mark": marks[opened.timeline.event[rows]]})
        return json_answer(answer)

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
        """Different traces, two at least."""
        numbers = _numbers(request, name)
        if len(numbers) < 2 or len(set(numbers)) < len(numbers):
            raise UsageError(f"{name} must be the numbers of two traces or more")
        if max(numbers) >= len(self.library.entries):
            raise NotFound(f"there is no trace {max(numbers)}")
        return numbers

    def event(self, request: Request) -> Response:
        opened = self._opened(request)
        rows = opened.navigation.related(request.path_params["event"])
        return json_answer({"events": opened.timeline.packed(rows)})

    def work(self, request: Request) -> Response:
        return Response(self._opened(request).work, media_type="application/json")

    def search(self, request: Request) -> Response:
        return json_answer(self._opened(request).search(request.query_params.get("q", "")))

    async def sql(self, request: Request) -> Response:
        """The only answer that may take long: it ends with the client who wants it."""
        opened, query = self._opened(request), request.query_params.get("q", "")
        found = await self.queries.answer(opened, query, request.receive)
        rows = await run_in_threadpool(json_rows, found.frame)
        return json_answer({"columns": found.frame.columns, "rows": rows, "count": found.count})

    def table(self, request: Request) -> Response:
        """A table of the trace as CSV, to keep."""
        trace, name = self._opened(request).trace, request.path_params["name"].removesuffix(".csv")
        if name not in trace.table_names():
            raise NotFound(f"tables: {', '.join(trace.table_names())}")
        headers = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
        content = csv_parts(trace.table(name))
        return StreamingResponse(content, media_type="text/csv", headers=headers)

    def file(self, request: Request) -> Response:
        """The trace itself, for Perfetto's page: passed on from window to window."""
        number, entries = request.path_params["number"], self.library.entries
        if number >= len(entries) or "::" in entries[number].path:
            raise NotFound("not a plain file")
        path = entries[number].path
        return FileResponse(path, stat_result=os.stat(path), media_type="application/octet-stream")

    def report(self, request: Request) -> Response:
        return page_answer(report([self._opened(request).trace]), policy("'none'"))

    def compare(self, request: Request) -> Response:
        found = self._together(self._several(request, "traces"))
        return json_answer({"state": "ready", "compared": found.compared})


def page_answer(text: str, allowed: str) -> Response:
    """A page, which nothing may frame."""
    headers = {"Content-Security-Policy": f"{allowed}; frame-ancestors 'none'"}
    return HTMLResponse(text, headers=headers)


def number_of(request: Request, name: str) -> int:
    """A parameter that is a number."""
    text = request.query_params.get(name, "")
    if not re.fullmatch(r"-?[0-9]{1,18}(?:\.[0-9]{0,18})?", text):
        raise UsageError(f"{name} must be a number")
    return int(float(text)) if "." in text else int(text)


def _range(request: Request) -> tuple[int, int]:
    start, end = number_of(request, "from"), number_of(request, "to")
    return start, max(end, start + 1)


def _tracks(request: Request) -> frozenset[int] | None:
    """The lanes that are wanted, or all."""
    wanted = "tracks" in request.query_params
    return frozenset(_numbers(request, "tracks")) if wanted else None


def _numbers(request: Request, name: str) -> tuple[int, ...]:
    """Numbers with commas between them."""
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
            process.end()
            self._spare = self._spare or QueryProcess()
        return await running


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
