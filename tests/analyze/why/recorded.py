"""The four recorded compiles, and records made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import foretrace
from foretrace.analyze.why.assemble import assemble
from foretrace.analyze.why.launches import CallRun, join
from foretrace.analyze.why.savings import Measured
from foretrace.model.about import device_of
from foretrace.read.compiler import CompilerLogs, LogRecord, TextRecord, read
from foretrace.schema.compiler import CompilerRun, KernelCall

DATA = Path(__file__).parents[2] / "data" / "compile"


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


@cache
def measured(run: str) -> Measured:
    """What the recorded trace says about the calls of a run."""
    compiler, trace = compiled(run), foretrace.open(DATA / run / "trace.json.gz")
    launches, device = join(compiler, trace), device_of(trace.about)
    places = {
        id(call): (at, number)
        for at, each in enumerate(compiler.compilations)
        for number, call in enumerate(each.calls)
    }

    def ran(call: KernelCall) -> Sequence[CallRun]:
        found = launches.of(*places[id(call)])
        return found.runs if found else ()

    return Measured(ran, device.bytes_per_s if device else None)
