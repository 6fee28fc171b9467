"""The routes. All of them read; every trace is told by its number in the catalog."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from foretrace.errors import ForetraceError, UsageError
from foretrace.render.html import report
from foretrace.render.html.packing import pack
from foretrace.render.html.page import page, policy
from foretrace.render.rows import csv_text, json_rows
from foretrace.serve.catalog import Entry
from foretrace.serve.opened import Opened, Shelf

WIDEST, MOST_ROWS = 8192, 1000


def application(shelf: Shelf, left_out: list[tuple[str, str]], token: str) -> Starlette:
    """The application, without its guard; `left_out` are the files that are no traces, each with
    why.
    """
    routes = _Routes(shelf, left_out)
    paths: dict[str, Callable[[Request], Response]] = {
        "/": routes.viewer,
        "/traces": routes.traces,
        "/trace/{number:int}": routes.facts,
        "/trace/{number:int}/tile": routes.tile,
        "/trace/{number:int}/event/{event:int}": routes.event,
        "/trace/{number:int}/search": routes.search,
        "/trace/{number:int}/sql": routes.sql,
        "/trace/{number:int}/table/{name}": routes.table,
        "/trace/{number:int}/file": routes.file,
        "/trace/{number:int}/report": routes.report,
        "/compare/{a:int}/{b:int}": routes.compare,
    }
    return Starlette(
        routes=[
            Route(f"/{token}{path}", endpoint, methods=["GET"]) for path, endpoint in paths.items()
        ],
        exception_handlers={ForetraceError: _in_words},  # type: ignore[dict-item]
    )


def _in_words(_: Request, problem: ForetraceError) -> Response:
    return JSONResponse({"state": "failed", "error": str(problem)}, 400)


class _Routes:
    """Plain functions: Starlette runs them in threads, so one slow answer holds up no other."""

    def __init__(self, shelf: Shelf, left_out: list[tuple[str, str]]) -> None:
        self.shelf = shelf
        self.listed = {
            "traces": [_entry(entry) for entry in shelf.entries],
            "left_out": [{"label": label, "why": why} for label, why in left_out],
        }

    def _opened(self, request: Request) -> Opened | Response:
        number = request.path_params["number"]
        if number >= len(self.shelf.entries):
            return JSONResponse({"state": "failed", "error": f"there is no trace {number}"}, 404)
        return self.shelf.get(number) or JSONResponse(self.shelf.progress(number), 202)

    def viewer(self, request: Request) -> Response:
        text = page("traces", self.listed, connect="'self'", main="viewer")
        return _page(text, policy("'self'", "viewer"))

    def traces(self, request: Request) -> Response:
        return JSONResponse(self.listed)

    def facts(self, request: Request) -> Response:
        opened = self._opened(request)
        return (
            opened
            if isinstance(opened, Response)
            else Response(opened.facts, media_type="application/json")
        )

    def tile(self, request: Request) -> Response:
        opened = self._opened(request)
        if isinstance(opened, Response):
            return opened
        start, end, width = (_number(request, name) for name in ("from", "to", "width"))
        rows = opened.tiles.rows(start, max(end, start + 1), min(max(width, 1), WIDEST))
        answer = opened.timeline.packed(rows)
        other, side = request.query_params.get("against"), request.query_params.get("side", "a")
        if (
            other is not None
            and other.isdigit()
            and int(other) < len(self.shelf.entries)
            and side in ("a", "b")
        ):
            number = request.path_params["number"]
            a, b = (number, int(other)) if side == "a" else (int(other), number)
            found = self.shelf.marks(a, b, side)
            if found is not None:
                return JSONResponse(
                    {"events": answer, "marks": pack({"mark": found[opened.timeline.event[rows]]})}
                )
        return JSONResponse({"events": answer})

    def event(self, request: Request) -> Response:
        opened = self._opened(request)
        if isinstance(opened, Response):
            return opened
        rows = opened.related(request.path_params["event"])
        return JSONResponse({"events": opened.timeline.packed(rows)})

    def search(self, request: Request) -> Response:
        opened = self._opened(request)
        return (
            opened
            if isinstance(opened, Response)
            else JSONResponse(opened.found(request.query_params.get("q", "")))
        )

    def sql(self, request: Request) -> Response:
        opened = self._opened(request)
        if isinstance(opened, Response):
            return opened
        frame = opened.trace.sql(request.query_params.get("q", ""))
        return JSONResponse(
            {
                "columns": frame.columns,
                "rows": json_rows(frame.head(MOST_ROWS)),
                "count": frame.height,
            }
        )

    def table(self, request: Request) -> Response:
        """A table of the trace as CSV, to keep."""
        opened = self._opened(request)
        if isinstance(opened, Response):
            return opened
        name = request.path_params["name"].removesuffix(".csv")
        if name not in opened.trace.table_names():
            return JSONResponse(
                {"state": "failed", "error": f"tables: {', '.join(opened.trace.table_names())}"},
                404,
            )
        headers = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
        return Response(csv_text(opened.trace.table(name)), media_type="text/csv", headers=headers)

    def file(self, request: Request) -> Response:
        """The trace itself, for Perfetto's page: passed on from window to window."""
        number = request.path_params["number"]
        if number >= len(self.shelf.entries) or "::" in self.shelf.entries[number].path:
            return JSONResponse({"state": "failed", "error": "not a file of its own"}, 404)
        return FileResponse(self.shelf.entries[number].path, media_type="application/octet-stream")

    def report(self, request: Request) -> Response:
        opened = self._opened(request)
        if isinstance(opened, Response):
            return opened
        return _page(report([opened.trace]), policy("'none'"))

    def compare(self, request: Request) -> Response:
        a, b = request.path_params["a"], request.path_params["b"]
        if max(a, b) >= len(self.shelf.entries):
            return JSONResponse({"state": "failed", "error": "there is no such trace"}, 404)
        found = self.shelf.compared(a, b)
        if found is None:
            return JSONResponse({"state": "opening"}, 202)
        return JSONResponse({"state": "ready", "comparison": msgspec.to_builtins(found)})


def _page(text: str, allowed: str) -> Response:
    return HTMLResponse(
        text, headers={"Content-Security-Policy": f"{allowed}; frame-ancestors 'none'"}
    )


def _entry(entry: Entry) -> dict[str, Any]:
    return {"number": entry.number, "label": entry.label, "bytes": entry.bytes}


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "")
    if not re.fullmatch(r"-?\d{1,18}(?:\.\d*)?", text):
        raise UsageError(f"{name}: a number is needed")
    return int(float(text)) if "." in text else int(text)
