"""The routes of a snapshot: its page, and stretches of its history in more detail."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from foretrace.base.errors import ForetraceError
from foretrace.show.html.memory_html import Drawing, SnapshotPage
from foretrace.show.html.page import page, policy
from foretrace.show.render.terminal import plain, stem
from foretrace.show.serve.app import NotFound, in_words, json_answer, number_of, page_answer


def memory_application(drawn: list[Drawing], token: str) -> Starlette:
    """The application, without its guard."""
    path = drawn[0].document.path
    devices = [each.device() for each in drawn]
    text = page(plain(stem(path)), SnapshotPage(devices, True), connect="'self'", main="memory")

    def viewer(request: Request) -> Response:
        return page_answer(text, policy("'self'", "memory"))

    def part(request: Request) -> Response:
        number = request.path_params["number"]
        if number >= len(drawn):
            raise NotFound(f"there is no device {number}")
        events = len(drawn[number].view.history)
        first = min(max(number_of(request, "from"), 0), events - 1)
        last = min(max(number_of(request, "to"), first + 1), events)
        return json_answer(drawn[number].part(first, last))

    paths = {"/": viewer, "/device/{number:count}/part": part}
    routes = [Route(f"/{token}{path}", answer, methods=["GET"]) for path, answer in paths.items()]
    return Starlette(routes=routes, exception_handlers={ForetraceError: in_words})  # type: ignore[dict-item]
