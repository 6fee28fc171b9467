"""Small things that every capture test needs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def read_json(path: Path) -> dict[str, Any]:
    raw = path.read_bytes()
    return json.loads(gzip.decompress(raw) if path.name.endswith(".gz") else raw)


@pytest.fixture
def names() -> Callable[[Path, str], list[str]]:
    """The names of a trace's complete events that start with a prefix, ordered by time."""

    def of(path: Path, prefix: str = "") -> list[str]:
        events = [event for event in read_json(path)["traceEvents"] if event.get("ph") == "X"]
        return [
            event["name"]
            for event in sorted(events, key=lambda event: event["ts"])
            if event["name"].startswith(prefix)
        ]

    return of


@pytest.fixture
def record() -> Callable[[Path], dict[str, Any]]:
    """The run record of a trace."""

    def of(trace: Path) -> dict[str, Any]:
        stem = trace.name.removesuffix(".gz").removesuffix(".json")
        return read_json(trace.with_name(f"{stem}.run.json"))

    return of
