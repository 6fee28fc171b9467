"""What torch's own formatters write is read back as it was."""

from __future__ import annotations

import hashlib
import logging

import pytest

from read.compiler.written import answer, expected, sample

pytestmark = pytest.mark.torch


def line(formatter: logging.Formatter, text: str, **extra: object) -> bytes:
    where = ("torch._inductor.scheduler", logging.DEBUG, "/x/torch/_inductor/scheduler.py", 9)
    made = logging.LogRecord(*where, text, None, None)
    made.__dict__.update(extra)
    return formatter.format(made).encode() + b"\n"


def test_records() -> None:
    internal = pytest.importorskip("torch._logging._internal")
    formatter = internal.TorchLogsFormatter(trace=True)
    for number in range(10):
        made, data = sample(number), b""
        for metadata, payload in made:
            if payload is not None:
                digest = hashlib.md5(payload.encode()).hexdigest()
                metadata = {**metadata, "has_payload": digest}
            data += line(formatter, "", metadata=metadata, payload=payload)
        found = answer(data)
        read = [(each.kind, each.fields, each.payload) for each in found.records]
        assert (read, found.notes) == (list(expected(made)), {})


def test_messages() -> None:
    internal = pytest.importorskip("torch._logging._internal")
    guards = pytest.importorskip("torch._guards")
    formatter = internal.TorchLogsFormatter()
    ids = ("0/0", "1/2", "!5/3/4", "!6")
    for attempt, each in enumerate(map(guards.CompileId.from_string, ids)):
        with guards.compile_context(guards.CompileContext(each)):
            guards.CompileContext.get().attempt = attempt
            data = line(formatter, "cannot fuse op1 with op2\n\n  [x]") + b"loss 0.5\n"
        (text,) = answer(data).texts
        assert text.text == "cannot fuse op1 with op2\n\n  [x]"
        assert (text.compile_id, text.attempt) == (str(each), attempt)
