"""Reading a trace without the reader: these tests must hold where it is not installed."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

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


@pytest.fixture
def few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few calls where half a second of them would be timed: no test asks for a time."""
    pace = import_module("foretrace.ladder._pace")
    monkeypatch.setattr(pace, "BATCH_NS", 1)
    monkeypatch.setattr(pace, "ROUNDS", 3)


@pytest.fixture
def dynamo_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dynamo with a backend that compiles nothing: guards, recompilations and limits are all its
    own, and quick.
    """
    torch = import_module("torch")

    def compiler(mode: str, device: str, dynamic: bool | None = None) -> Any:
        return lambda thing: torch.compile(thing, backend="eager", dynamic=dynamic)

    for name in ("_climb", "_visits", "_worth"):
        monkeypatch.setattr(import_module(f"foretrace.ladder.{name}"), "compiler", compiler)
