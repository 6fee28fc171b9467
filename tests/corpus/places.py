"""Where the recorded traces are."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

from corpus.build import Doc, Raw

RECORDED = Path(__file__).resolve().parents[2] / "src" / "foretrace/read/recordings/h200"
PUBLIC = os.environ.get("FORETRACE_PUBLIC_TRACES", "")


def recorded_traces() -> list[Path]:
    return sorted(RECORDED.glob("*.json.gz"))


def public_traces() -> list[Path]:
    return sorted(Path(PUBLIC).glob("*.json.gz")) if PUBLIC else []


def recorded(name: str) -> Doc:
    """A recorded trace as a document, every number as it is written."""
    with gzip.open(RECORDED / f"{name}.json.gz") as file:
        header = json.load(file, parse_float=Raw)
    events = header.pop("traceEvents")
    tail = {"traceName": header.pop("traceName")}
    return Doc(events, header, tail)
