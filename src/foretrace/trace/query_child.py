"""The other side of `query_process`: runs one query in a process that can do nothing else.

The process gets open files: the request, the place for the answer, and one for each table. Before
it looks at the query it gives up the right to open any file, and bounds its memory and its time.
"""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import resource
import signal
import socket
from typing import Any

import polars as pl

LINE = 0  # stdin: the socket to the process that wants the answer
MOST_FILES = 64  # of a request; a trace has some twenty tables


def main() -> None:
    """Wait for a request and answer it."""
    pl.SQLContext(warm=pl.DataFrame({"a": [0]}), eager=True).execute("SELECT sum(a) FROM warm")
    line = socket.socket(fileno=LINE)
    _, files, flags, _ = socket.recv_fds(line, 1, MOST_FILES)
    if flags & socket.MSG_CTRUNC:  # some could not be opened here
        os._exit(errno.EMFILE)
    if not files:  # nobody has a query any more
        return
    _end_with(line)
    with open(files[0], "rb") as request:
        given = json.load(request)
    names = zip(given["tables"], files[2:], strict=True)
    tables = {name: pl.read_ipc(f"/proc/self/fd/{file}") for name, file in names}
    _confine(given["seconds"], given["memory"])
    try:
        with open(files[1], "wb") as reply:
            _answer(tables, given["query"], given["rows"], reply)
    except OSError as problem:  # no file can be opened: a limit on their size
        os._exit(problem.errno or 1)
    os._exit(0)  # nothing is left to tidy, and Polars takes a while to


def _end_with(line: socket.socket) -> None:
    """Let the kernel end this process, whatever it is doing, when the other side is gone."""
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGIO, signal.SIGALRM})
    fcntl.fcntl(line, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(line, fcntl.F_SETFL, fcntl.fcntl(line, fcntl.F_GETFL) | os.O_ASYNC)
    try:
        line.recv(1, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return
    os._exit(1)  # it went before the kernel was told


def _confine(seconds: int, memory: int) -> None:
    """No file can be opened from here on; `memory` bytes more than now, `seconds` of time."""
    with open("/proc/self/statm") as sizes:
        held = int(sizes.read().split()[0]) * resource.getpagesize()
    limits = {
        resource.RLIMIT_AS: held + memory,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 0,
    }
    for what, most in limits.items():
        hard = resource.getrlimit(what)[1]
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (allowed, allowed))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)


def _answer(tables: dict[str, pl.DataFrame], query: str, rows: int, reply: Any) -> None:
    """One line of JSON and the first rows, or one line that says what was wrong."""
    content = io.BytesIO()
    try:
        frame = pl.SQLContext(tables, eager=True).execute(query)
        frame.head(rows).write_ipc(content)
        said: dict[str, Any] = {"count": frame.height}
    except MemoryError:
        os.abort()  # as Polars does where Rust gets no memory
    except BaseException as error:  # noqa: BLE001  a panic of Polars is no Exception
        said = {"error": str(error)}
        content = io.BytesIO()
    reply.write(json.dumps(said).encode() + b"\n")
    reply.write(content.getbuffer())
