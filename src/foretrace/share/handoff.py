"""The way into Perfetto's page without an upload: two small servers on this machine, each for one
trace and then gone.

`page` serves a page whose button opens Perfetto and passes the trace from window to window;
Perfetto trusts such pages on 127.0.0.1. `one_file` serves the file itself on port 9001, the only
plain address that Perfetto's page may fetch from, to that page alone, once.
"""

from __future__ import annotations

import secrets
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

from foretrace.errors import UsageError
from foretrace.render.html.page import page as html_page
from foretrace.render.html.page import policy

PERFETTO = "https://ui.perfetto.dev"
PORT = 9001
WAIT_S = 60.0


class OneTrace(HTTPServer):
    """`answers` maps a path to (type, bytes, headers); `last` is the path after which the server
    has done its work.
    """

    def __init__(
        self,
        port: int,
        answers: dict[str, tuple[str, bytes, dict[str, str]]],
        last: str,
        origin: str,
    ) -> None:
        super().__init__(("127.0.0.1", port), _Answer)
        self.port = int(self.server_address[1])
        self.answers, self.last, self.origin = answers, last, origin
        self.served = threading.Event()
        self.address = ""


class _Answer(BaseHTTPRequestHandler):
    server: OneTrace
    timeout = 10

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        own = (f"127.0.0.1:{self.server.port}", f"localhost:{self.server.port}")
        if self.headers.get("Host") not in own:
            return self._refuse(421)
        if self.headers.get("Origin") not in (
            None,
            self.server.origin,
            f"http://{own[0]}",
            f"http://{own[1]}",
        ):
            return self._refuse(403)
        found = self.server.answers.get(self.path)
        if found is None:
            return self._refuse(404)
        kind, data, headers = found
        self.send_response(200)
        for name, value in (
            {
                "Content-Type": kind,
                "Content-Length": str(len(data)),
                "Cache-Control": "no-store",
                "X-Content-Type-Options": "nosniff",
            }
            | headers
        ).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
        if self.path == self.server.last:
            self.server.served.set()
        return None

    def _refuse(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


def page(trace: Path, title: str, origin: str = PERFETTO) -> OneTrace:
    """Serves the page at `/TOKEN/` and the trace at `/TOKEN/trace`; started with
    `serve_until_fetched`.
    """
    token = secrets.token_urlsafe(16)
    data = {"title": title, "file": trace.name, "perfetto": origin}
    text = html_page(title, data, connect="'self'", main="handoff").encode()
    headers = {"Content-Security-Policy": policy("'self'", "handoff") + "; frame-ancestors 'none'"}
    server = OneTrace(
        0,
        {
            f"/{token}/": ("text/html; charset=utf-8", text, headers),
            f"/{token}/trace": ("application/octet-stream", trace.read_bytes(), {}),
        },
        f"/{token}/trace",
        origin,
    )
    server.address = f"http://127.0.0.1:{server.port}/{token}/"
    return server


def one_file(trace: Path, origin: str = PERFETTO, port: int = PORT) -> OneTrace:
    """Serves the trace, once, to Perfetto's page alone."""
    path = f"/{quote(trace.name)}"
    headers = {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Private-Network": "true",
    }
    try:
        server = OneTrace(
            port, {path: ("application/octet-stream", trace.read_bytes(), headers)}, path, origin
        )
    except OSError as problem:
        raise UsageError(
            f"port {port} is in use, and Perfetto fetches from no other: {problem}"
        ) from None
    server.address = f"{origin}/#!/?url=http://127.0.0.1:{server.port}{path}"
    return server


def serve_until_fetched(server: OneTrace, wait_s: float = WAIT_S) -> bool:
    """Serve until the trace was fetched or nobody came for it; says which."""
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    fetched = server.served.wait(wait_s)
    server.shutdown()
    thread.join()
    server.server_close()
    return fetched
