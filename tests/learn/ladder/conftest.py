"""Reading a trace without the reader: these tests must hold where it is not installed."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def counts() -> Callable[[Path], Counter[str]]:
    """How often each name occurs among a trace's complete events."""

    def of(trace: Path) -> Counter[str]:
        raw = trace.read_bytes()
        events = json.loads(gzip.decompress(raw) if trace.name.endswith(".gz") else raw)[
            "traceEvents"
        ]
        return Counter(event["name"] for event in events if event.get("ph") == "X")

    return of
