"""Traces that several tests look at: opened once in a process, with what the rules say of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import msgspec

import foretrace as ft
from foretrace.look import summarize
from foretrace.look.documents import Finding, Overview
from foretrace.look.savings import findings as found_in
from foretrace.read import recordings
from foretrace.trace.trace import Trace

FAULTS = Path(__file__).parent / "recorded"  # each made for one fault, or for its fix


H200 = {
    "deviceProperties": [
        {"id": 0, "name": "NVIDIA H200", "numSms": 132, "computeMajor": 9, "computeMinor": 0}
    ]
}
MM = {"dims": [[4096, 4096], [4096, 4096]], "types": ["c10::BFloat16"] * 2}


@cache
def opened(path: Path) -> Trace:
    """One trace; no test may change it."""
    return ft.open(path, cache=False)


class Made(Protocol):
    """What writes the JSON of a trace: a `TraceBuilder` or a `Sketch`."""

    def bytes(self) -> bytes: ...


def open_made(made: Made | Mapping[str, Any], folder: Path, name: str = "trace") -> Trace:
    """A made-up trace, written to a folder and opened."""
    path = folder / f"{name}.json"
    path.write_bytes(msgspec.json.encode(made) if isinstance(made, Mapping) else made.bytes())
    return ft.open(path, cache=False)


@cache
def findings(path: Path) -> dict[str, list[Finding]]:
    """What every rule says of a trace, by rule."""
    found: dict[str, list[Finding]] = {}
    for finding in found_in(opened(path)):
        found.setdefault(finding.rule, []).append(finding)
    return found


@cache
def overview(path: Path) -> Overview:
    """The overview of a trace; no test may change it."""
    return summarize(opened(path))


def recording(name: str) -> Path:
    """A shipped recording by its name (`_bf16` may be left out), or one of the faults."""
    found = recordings.find(f"{name}_bf16") or recordings.find(name)
    return found or FAULTS / f"{name}.json.gz"
