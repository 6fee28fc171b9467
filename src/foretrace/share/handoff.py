"""The way into Perfetto's page without an upload: two small local servers, each for one trace.

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
BINARY = "application/octet-stream"

Answers = dict[str, tuple[str, bytes, dict[str, str]]]  # path -> type, content, headers


class OneTrace(HTTPServer):
    """Serves `answers` to `origin` and to itself; done once the path `last` was fetched."""

    def __init__(self, port: int, answers: Answers, last: str, origin: str) -> None:
        super().__init__(("127.0.0.1", port), _Answer)
        self.port = int(self.server_address[1])
        self.answers, self.last, self.origin = answers, last, origin
        self.served = threading.Event()
        self.address = ""


class _Answer(BaseHTTPRequestHandler):
    server: OneTrace
    timeout = 10

    def log_message(self, *_: Any, **__: Any) -> None:
        """Nothing is logged."""

    def do_GET(self) -> None:
        """Answer a page of this server, or Perfetto's."""
        own = (f"127.0.0.1:{self.server.port}", f"localhost:{self.server.port}")
        origins = (None, self.server.origin, *(f"http://{host}" for host in own))
        if self.headers.get("Host") not in own:
            return self._send(421)
        if self.headers.get("Origin") not in origins:
            return self._send(403)
        if self.path not in self.server.answers:
            return self._send(404)
        kind, content, headers = self.server.answers[self.path]
        safe = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        self._send(200, content, {"Content-Type": kind} | safe | headers)
        if self.path == self.server.last:
            self.server.served.set()
        return None

    def _send(
        self, status: int, content: bytes = b"", headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(content))} | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


def page(trace: Path, title: str, origin: str = PERFETTO) -> OneTrace:
    """Serves a page at `/TOKEN/`, the trace at `/TOKEN/trace`; `serve_until_fetched` starts it."""
    root = f"/{secrets.token_urlsafe(16)}/"
    data = {"title": title, "file": trace.name, "perfetto": origin}
    text = html_page(title, data, connect="'self'", main="handoff").encode()
    headers = {"Content-Security-Policy": policy("'self'", "handoff") + "; frame-ancestors 'none'"}
    answers: Answers = {
        root: ("text/html; charset=utf-8", text, headers),
        f"{root}trace": (BINARY, trace.read_bytes(), {}),
    }
    server = OneTrace(0, answers, f"{root}trace", origin)
    server.address = f"http://127.0.0.1:{server.port}{root}"
    return server


def one_file(trace: Path, origin: str = PERFETTO, port: int = PORT) -> OneTrace:
    """Serves the trace, once, to Perfetto's page alone."""
    path = f"/{quote(trace.name)}"
    allow = "Access-Control-Allow"
    headers = {f"{allow}-Origin": origin, f"{allow}-Private-Network": "true"}
    try:
        server = OneTrace(port, {path: (BINARY, trace.read_bytes(), headers)}, path, origin)
    except OSError as problem:
        words = f"port {port} is in use, and Perfetto fetches only from it: {problem}"
        raise UsageError(words) from None
    server.address = f"{origin}/#!/?url=http://127.0.0.1:{server.port}{path}"
    return server


def serve_until_fetched(server: OneTrace, wait_s: float = WAIT_S) -> bool:
    """Serve until the trace was fetched, at most `wait_s` seconds; returns whether it was."""
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    fetched = server.served.wait(wait_s)
    server.shutdown()
    thread.join()
    server.server_close()
    return fetched
