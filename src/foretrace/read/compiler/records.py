"""What a log holds, record by record, before anybody has read its meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from foretrace.schema.ledger import Ledger


class LogRecord(Struct, frozen=True, gc=False):
    """One record of a structured log (`TORCH_TRACE`).

    `kind` is the record's own key (`dynamo_output_graph`, `artifact`), `name` an artifact's name,
    `fields` the key's value with file names in place of their numbers. `payload` is UTF-8, as the
    file has it; a record whose payload is damaged is not kept.
    """

    kind: str
    name: str
    compile_id: str  # `0/1`, `!1/0/0` under compiled autograd, "" outside of a compilation
    attempt: int
    rank: int | None
    pid: int
    fields: dict[str, Any]
    payload: bytes
    line: int  # of the file, from 1


class TextRecord(Struct, frozen=True, gc=False):
    """One message of the log text (`TORCH_LOGS`), its lines without their heads.

    Messages of one place in the code within one millisecond have the same head, and are one record.
    """

    channel: str  # `fusion`, `ir_pre_fusion`; "" for a plain message
    compile_id: str
    text: str
    line: int  # of the file, from 1
    rank: int | None
    attempt: int = 0
    pid: int = 0


class CompilerLogs(Struct, frozen=True):
    """All logs of one bundle, in the order of their files."""

    path: str
    records: Sequence[LogRecord]
    texts: Sequence[TextRecord]
    ledger: Ledger
    sources: tuple[str, ...]
    processes: dict[str, int] = {}  # by file: the one that wrote most of it
