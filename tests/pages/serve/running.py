"""A viewer that runs while a test does, and plain sockets to talk to it with."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from foretrace.pages.serve import run


@dataclass(frozen=True)
class Viewer:
    """The address of a viewer, in parts."""

    address: str

    @property
    def port(self) -> int:
        return int(self.address.split(":")[2].split("/")[0])

    @property
    def base(self) -> str:
        """`/TOKEN/`."""
        return "/" + self.address.split("/", 3)[3]

    def send(self, data: bytes, wait: float = 120) -> tuple[int, dict[str, str], bytes]:
        """Send bytes as they are; the status (0 when the line was cut), headers and body of the
        answer.
        """
        with socket.create_connection(("127.0.0.1", self.port), timeout=wait) as line:
            with suppress(OSError):  # it may be refused before all of it was read
                line.sendall(data)
            held = b""
            with suppress(OSError):
                while block := line.recv(1 << 16):
                    held += block
        head, _, body = held.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        status = int(lines[0].split()[1]) if lines[0].startswith("HTTP/") else 0
        return (
            status,
            {
                name.lower(): value
                for name, _, value in (line.partition(": ") for line in lines[1:])
            },
            body,
        )

    def get(
        self, path: str, headers: dict[str, str] | None = None, method: str = "GET"
    ) -> tuple[int, dict[str, str], bytes]:
        """A request for a path under the token, by our own page unless `headers` say otherwise."""
        given = {"Host": f"127.0.0.1:{self.port}"} | (headers or {})
        lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        return self.send(
            f"{method} {self.base}{path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1", "replace")
        )

    def json(self, path: str) -> Any:
        """The answer to a path, asked for until it is ready."""
        for _ in range(600):
            status, _, body = self.get(path)
            if status != 202:
                return json.loads(body)
            time.sleep(0.05)
        raise TimeoutError(path)


def end_process(*_: object) -> None:
    """What a process does that is killed."""
    os._exit(9)


def viewer(root: str) -> AbstractContextManager[Viewer]:
    return running(run.prepare(root, cache=False))


@contextmanager
def running(prepared: run.Running) -> Iterator[Viewer]:
    server, sockets, address = prepared
    thread = threading.Thread(target=server.run, kwargs={"sockets": sockets}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield Viewer(address)
    server.should_exit = True
    thread.join(10)
