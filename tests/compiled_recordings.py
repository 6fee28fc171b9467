"""The four recorded compiles, and records made by hand."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from foretrace.read.compiler import CompilerLogs, LogRecord, TextRecord, read
from foretrace.read.compiler.records import CompilerRun
from foretrace.trace.compiled.assemble import assemble
from foretrace.trace.compiled.launches import Launches, join
from foretrace.trace.trace import Trace

DATA = Path(__file__).parent / "data" / "compile"
RUNS = ("mlp", "unfusable", "recompiles", "llama_train")


@cache
def logs(run: str) -> CompilerLogs:
    return read(str(DATA / run))


def texts_of(run: str, compile_id: str) -> list[TextRecord]:
    return [text for text in logs(run).texts if text.compile_id == compile_id]


def records_of(run: str, compile_id: str) -> list[LogRecord]:
    return [record for record in logs(run).records if record.compile_id == compile_id]


def message(channel: str, text: str) -> TextRecord:
    return TextRecord(channel, "0/0", text, 1, None)


def artifact(name: str, payload: str) -> LogRecord:
    return record("artifact", {"name": name}, payload, name)


def record(kind: str, fields: dict[str, Any], payload: str = "", name: str = "") -> LogRecord:
    return LogRecord(kind, name, "0/0", 0, None, 1, fields, payload.encode(), 1)


@cache
def compiled(run: str) -> CompilerRun:
    return assemble(logs(run))


def joined(run: CompilerRun, trace: Trace) -> Launches:
    return join(run, trace.host, trace.gpu, trace.tables, trace.arguments, trace.about.rank)
