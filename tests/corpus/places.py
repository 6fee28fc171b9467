"""Where the recorded traces are, and how much of the sweeps to run."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from corpus.build import Doc, Raw

Case = TypeVar("Case")
RECORDED = Path(__file__).resolve().parents[2] / "src" / "foretrace/read/recordings/h200"
PUBLIC = os.environ.get("FORETRACE_PUBLIC_TRACES", "")
FULL_SWEEP = os.environ.get("FORETRACE_SWEEP") == "full"
full = pytest.mark.skipif(not FULL_SWEEP, reason="`make test-full` runs it")
DEEP = FULL_SWEEP or bool(os.environ.get("FORETRACE_DEEP"))  # the sweeps of the reader alone


def examples(sample: int) -> int:
    """How many examples a property is tried on."""
    return sample * 30 if FULL_SWEEP else sample // 2


def sampled(cases: Sequence[Case], every: int = 6) -> list[Case]:
    """Every sixth case, or all: for what reads each trace of the corpus once more."""
    return list(cases if DEEP else cases[::every])


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
