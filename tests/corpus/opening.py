"""Opening a file the ways a person does: in Python, on the command line, and from standard input."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

import foretrace
from corpus.cases import Case, Opened
from foretrace.base.budget import Limits
from foretrace.cli import main
from foretrace.look.document import document
from foretrace.look.rules import run_all


@dataclass(frozen=True)
class Ran:
    """What one command left behind."""

    code: int
    out: str
    err: str

    @property
    def doc(self) -> dict[str, Any]:
        return json.loads(self.out, parse_constant=_no_constant)


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def open_at(path: Path | str, limits: dict[str, int] | None = None) -> Opened:
    """A trace with the tables of its `look`, without what is said and predicted of them."""
    trace = foretrace.open(path, cache=False, limits=Limits(**limits) if limits else None)
    return Opened(trace, msgspec.to_builtins(document(trace, run_all(trace))))


def run(*args: str, stdin: bytes | None = None) -> Ran:
    """`foretrace ARGS` in this process, with the real file descriptor 0 where `stdin` is given."""
    out, err = (
        io.TextIOWrapper(io.BytesIO(), "utf-8", errors="strict", newline="") for _ in range(2)
    )
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _stdin(stdin):
        code = main(list(args))
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8"))  # type: ignore[attr-defined]
    return Ran(code, *texts)


@contextlib.contextmanager
def _stdin(data: bytes | None) -> Iterator[None]:
    """Feed `data` through a pipe on descriptor 0, as a shell would."""
    if data is None:
        yield
        return
    reader, writer = os.pipe()
    saved_fd, saved = os.dup(0), sys.stdin
    os.dup2(reader, 0)
    os.close(reader)
    sys.stdin = os.fdopen(0, closefd=False)
    feeder = threading.Thread(target=_feed, args=(writer, data))
    feeder.start()
    try:
        yield
    finally:
        os.dup2(saved_fd, 0)  # closes the pipe's reading end, which ends a feeder nobody listens to
        os.close(saved_fd)
        sys.stdin = saved
        feeder.join()


def _feed(writer: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(writer, "wb") as pipe:
        pipe.write(data)


def look_json(
    path: Path | str, case: Case | None = None, *flags: str, stdin: bytes | None = None
) -> Ran:
    limits = [f"--limit={name}={value}" for name, value in (case.limits if case else {}).items()]
    return run("look", os.fspath(path), "--json", "--no-cache", *limits, *flags, stdin=stdin)


def without_path(doc: dict[str, Any]) -> dict[str, Any]:
    """The document less the one field that names where it came from."""
    return doc | {"trace": {key: value for key, value in doc["trace"].items() if key != "path"}}
