"""A Hugging Face Hub of the tests' own: buckets, and the chunk store behind them, as far as
uploading a file asks for it.

The upload goes through huggingface_hub and its native client unchanged; only the address is this
machine's.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar


class Hub(ThreadingHTTPServer):
    """`files` by path in the bucket, as their hash; `requests` as (method, path); `chunks` is what
    was sent as data.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.files: dict[str, str] = {}
        self.requests: list[tuple[str, str]] = []
        self.chunks: list[bytes] = []
        self.made: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, *_: Any, **__: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._note()
        if self.path == "/api/whoami-v2":
            return self._json({"type": "user", "name": "tester"})
        if "/tree" in self.path:
            return self._json(
                [
                    {"type": "file", "path": path, "size": 1, "xetHash": found, "mtime": None}
                    for path, found in self.server.files.items()
                ]
            )
        if "/xet-write-token" in self.path:
            headers = {
                "X-Xet-Cas-Url": self.server.address,
                "X-Xet-Access-Token": "t",
                "X-Xet-Token-Expiration": str(int(time.time()) + 3600),
            }
            return self._json(
                {"casUrl": self.server.address, "exp": int(time.time()) + 3600, "accessToken": "t"},
                headers=headers,
            )
        return self._json({"error": "not here"}, 404)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = self._note()
        if self.path.endswith("/batch"):
            for line in body.splitlines():
                entry = json.loads(line)
                assert entry["type"] == "addFile", entry
                self.server.files[entry["path"]] = entry["xetHash"]
            return self._json({"success": True, "failed": []})
        if "/xorbs/" in self.path:
            self.server.chunks.append(body)
            return self._json({"was_inserted": True})
        if self.path == "/v1/shards":
            return self._json({"result": 1})
        if self.path.startswith("/api/buckets/"):
            self.server.made.append(self.path.removeprefix("/api/buckets/"))
            return self._json({"url": f"{self.server.address}/buckets/{self.server.made[-1]}"})
        return self._json({"error": "not here"}, 404)

    do_PUT = do_POST

    def _note(self) -> bytes:
        self.server.requests.append((self.command, self.path))
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, text in (
            {"Content-Type": "application/json", "Content-Length": str(len(data))} | (headers or {})
        ).items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


AnyHub = TypeVar("AnyHub", bound=Hub)


def running() -> AbstractContextManager[Hub]:
    return served(Hub())


@contextmanager
def served(server: AnyHub) -> Iterator[AnyHub]:
    """`server` at work until the end of the block."""
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
