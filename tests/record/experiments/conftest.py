"""Experiments on a CPU, with few calls and without Inductor."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest


@pytest.fixture
def few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few calls instead of half a second of them: no test asserts a time."""
    timing = import_module("foretrace.record.experiments.machine")
    monkeypatch.setattr(timing, "BATCH_NS", 1)
    monkeypatch.setattr(timing, "ROUNDS", 3)


@pytest.fixture
def dynamo_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dynamo with a backend that compiles nothing: guards, recompilations and limits are real."""
    torch = import_module("torch")

    def compiler(mode: str, device: str, dynamic: bool | None = None) -> Any:
        return lambda thing: torch.compile(thing, backend="eager", dynamic=dynamic)

    for name in ("machine", "shapes"):
        module = import_module(f"foretrace.record.experiments.{name}")
        monkeypatch.setattr(module, "compiler", compiler)
