"""The way into Perfetto's page without an upload: two small local servers, each for one trace.

`page` serves a page whose button opens Perfetto and passes the trace from window to window;
Perfetto trusts such pages on 127.0.0.1. `one_file` serves the file itself on port 9001, the only
plain address that Perfetto's page may fetch from. Other users of this machine reach both servers,
so every path begins with a token of this run, and the trace is given out once.
"""

from __future__ import annotations

import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

from foretrace.base.errors import UsageError
from foretrace.pages.page import page as html_page
from foretrace.pages.page import policy

PERFETTO = "https://ui.perfetto.dev"
PORT = 9001
WAIT_S = 60.0
SLOWEST_S = 10.0
END_S = 0.05  # how soon the server sees that it is done
MOST_THREADS = 200
PART_BYTES = 1 << 20  # what a client must take within `SLOWEST_S`
BINARY = "application/octet-stream"

Answers = dict[str, tuple[str, bytes, dict[str, str]]]  # path -> type, content, headers
_SAFE = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class OneTrace(ThreadingHTTPServer):
    """Serves `answers`; done once the path `last` was fetched.

    A request comes from `origin`; without one, from a page of this server.
    """

    daemon_threads = True  # a slow client holds up neither another one nor the end
    request_queue_size = 128  # nor do many

    def __init__(self, port: int, answers: Answers, last: str, origin: str = "") -> None:
        super().__init__(("127.0.0.1", port), _Answer)
        self.port = int(self.server_address[1])
        self.hosts = (f"127.0.0.1:{self.port}", f"localhost:{self.port}")
        self.answers, self.last, self.origin = answers, last, origin
        self.taken = threading.Lock()
        self.served = threading.Event()
        self.address = ""

    def process_request(self, request: Any, client_address: Any) -> None:
        """One thread for each client, up to a bound."""
        if threading.active_count() > MOST_THREADS:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is no news."""

    def path(self, given: str) -> str | None:
        """The path that a request means; the time it takes tells nothing about the token."""
        wanted = given.encode("latin-1", "replace")
        same = [known for known in self.answers if secrets.compare_digest(known.encode(), wanted)]
        return same[0] if same else None

    def refusal(self, host: list[str], origin: list[str]) -> int | None:
        """The status of a refusal, or None."""
        if len(host) != 1 or host[0] not in self.hosts:
            return 421
        own = [[], [f"http://{host[0]}"]]  # a page's own requests may lack the header
        return None if origin in ([[self.origin]] if self.origin else own) else 403


class _Answer(BaseHTTPRequestHandler):
    server: OneTrace
    timeout = SLOWEST_S

    def log_message(self, *_: Any, **__: Any) -> None:
        """Nothing is logged."""

    def do_GET(self) -> None:
        """Answer a page of this server, or Perfetto's."""
        given = (self.headers.get_all(name, []) for name in ("Host", "Origin"))
        path, status = self.server.path(self.path), self.server.refusal(*given)
        if self.request_version not in ("HTTP/1.0", "HTTP/1.1"):
            status = 400
        if status or path is None:
            return self._send(status or 404)
        if path == self.server.last and not self.server.taken.acquire(blocking=False):
            return self._send(410)
        kind, content, headers = self.server.answers[path]
        try:
            self._send(200, content, {"Content-Type": kind} | _SAFE | headers)
            if path == self.server.last:
                self.server.served.set()
        except OSError:  # the client is gone; it may come again
            if path == self.server.last:
                self.server.taken.release()
        return None

    def _send(
        self, status: int, content: bytes = b"", headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(content))} | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        for start in range(0, len(content), PART_BYTES):
            self.wfile.write(content[start : start + PART_BYTES])


def page(trace: Path, title: str, origin: str = PERFETTO) -> OneTrace:
    """Serves a page at `/TOKEN/`, the trace at `/TOKEN/trace`; `serve_until_fetched` starts it."""
    root = f"/{secrets.token_urlsafe(24)}/"
    data = {"kind": "perfetto", "title": title, "file": trace.name, "perfetto": origin}
    text = html_page(title, data, connect="'self'").encode()
    headers = {"Content-Security-Policy": policy("'self'") + "; frame-ancestors 'none'"}
    answers: Answers = {
        root: ("text/html; charset=utf-8", text, headers),
        f"{root}trace": (BINARY, trace.read_bytes(), {}),
    }
    server = OneTrace(0, answers, f"{root}trace")
    server.address = f"http://127.0.0.1:{server.port}{root}"
    return server


def one_file(trace: Path, origin: str = PERFETTO, port: int = PORT) -> OneTrace:
    """Serves the trace, once, to Perfetto's page alone."""
    path = f"/{secrets.token_urlsafe(24)}/{quote(trace.name)}"
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
    thread = threading.Thread(target=server.serve_forever, args=(END_S,), daemon=True)
    thread.start()
    fetched = server.served.wait(wait_s)
    server.shutdown()
    thread.join()
    server.server_close()
    return fetched
