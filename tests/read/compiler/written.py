"""Logs as torch writes them, made from their content."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Iterator
from typing import Any

from foretrace.base.budget import Limits
from foretrace.read.compiler.reader import LogFile
from foretrace.read.ledger import Ledger, LedgerBuilder

Made = tuple[dict[str, Any], str | None]  # metadata, payload


def head(pid: int = 412, file: str = "torch/_dynamo/utils.py", line: int = 2126) -> str:
    return f"V1115 07:58:48.410000 {pid} {file}:{line}] "


def record(metadata: dict[str, Any], payload: str | None = None, pid: int = 412) -> bytes:
    """One record; its digest is added."""
    if payload is not None:
        digest = hashlib.md5(payload.encode()).hexdigest()
        metadata = {**metadata, "has_payload": digest}
    below = "" if payload is None else "".join(f"\n\t{line}" for line in payload.split("\n"))
    return (head(pid) + json.dumps(metadata) + below + "\n").encode()


def artifact(name: str, payload: str, pid: int = 412, frame: int = 0) -> bytes:
    metadata = {"artifact": {"name": name, "encoding": "string"}}
    return record({**metadata, "frame_id": frame, "frame_compile_id": 0}, payload, pid)


def message(text: str, tags: str = "[0/0] [__fusion] ", prefix: str = "") -> bytes:
    """One message: each line has the head."""
    lines = (
        f"{prefix}{head(file='torch/_inductor/scheduler.py')}{tags}{x}\n" for x in text.split("\n")
    )
    return "".join(lines).encode()


class Answer:
    """What the reader makes of some bytes."""

    def __init__(self, data: bytes, limits: Limits, size: int) -> None:
        ledger = LedgerBuilder()
        file = LogFile(ledger, limits)
        file.read_blocks(data[at : at + size] for at in range(0, len(data), size))
        self.records, self.texts = file.records, file.messages.texts
        self.ledger: Ledger = ledger.freeze()
        kept = self.ledger.kept + self.ledger.repaired
        assert self.ledger.seen == kept + self.ledger.skipped
        assert kept >= len(self.records) + len(self.texts)

    @property
    def notes(self) -> dict[str, int]:
        return {note.code: note.count for note in self.ledger.notes}

    @property
    def payloads(self) -> list[bytes]:
        return [record.payload for record in self.records]


def answer(data: bytes, limits: Limits | None = None, size: int = 1 << 16) -> Answer:
    return Answer(data, limits or Limits(), size)


_LINES = [
    "", " ", "\t", "def call(args):", "  # Topologically Sorted Source Nodes: [x]", "{", "é ✓", "}",
    "V1115 07:58:48.410000 412 torch/a.py:1] [0/0] [__fusion] quoted", "\x1b[31mred\x1b[0m",
]  # fmt: skip


def sample(number: int) -> list[Made]:
    """The content of a small log, made from its number."""
    chooser = random.Random(number)
    made: list[Made] = []
    for at in range(chooser.randint(1, 8)):
        common = {"frame_id": chooser.randint(0, 3), "frame_compile_id": 0, "attempt": at % 2}
        match chooser.randint(0, 4):
            case 0:
                made.append(({"str": [f"/home/{number}/é {at}.py", at]}, None))
            case 1:
                made.append(({"describe_source": {"id": at, "source": "L['x']"}, **common}, None))
            case 2:
                event = {"name": "dynamo", "ts": at / 3, "args": {"compile_id": "0/0"}}
                made.append(({"chromium_event": {}, **common}, json.dumps(event, indent=0)))
            case 3:
                known = [value["str"][1] for value, _ in made if "str" in value]
                frames = [{"line": 1, "name": "f", "filename": number} for number in known]
                made.append(({"dynamo_start": {"stack": frames}, **common}, None))
            case _:
                text = "\n".join(chooser.choices(_LINES, k=chooser.randint(1, 6)))
                made.append(
                    ({"artifact": {"name": f"a{at}", "encoding": "string"}, **common}, text)
                )
    return made


def expected(made: Iterable[Made]) -> Iterator[tuple[str, Any, bytes]]:
    """Kind, fields and payload of every record but the strings."""
    names: dict[int, str] = {}
    for metadata, payload in made:
        kind = next(iter(metadata))
        fields = metadata[kind]
        if kind == "str":
            names[fields[1]] = fields[0]
            continue
        if "stack" in fields:
            frames = [{**f, "filename": names[f["filename"]]} for f in fields["stack"]]
            fields = {"stack": frames}
        yield kind, fields, (payload or "").encode()
