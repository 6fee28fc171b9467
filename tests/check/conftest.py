"""Recorded traces by name, each opened once, and a way to take things out of one."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foretrace as ft
from foretrace.trace.trace import Trace
from opened_traces import open_made, opened

H200 = Path(ft.__file__).parent / "read/recordings/h200"


def recorded(name: str) -> Trace:
    return opened(H200 / f"{name}.json.gz")


def without(
    path: Path,
    name: str,
    *,
    drop: Callable[[dict[str, Any]], bool] | None = None,
    args: tuple[str, ...] = (),
    header: tuple[str, ...] = (),
) -> Trace:
    """A recorded trace without some events, arguments of all events, or keys of its header."""
    document = json.loads(gzip.decompress((H200 / f"{name}.json.gz").read_bytes()))
    document["traceEvents"] = [
        event for event in document["traceEvents"] if drop is None or not drop(event)
    ]
    for event in document["traceEvents"]:
        for key in args:
            event.get("args", {}).pop(key, None)
    for key in header:
        document.pop(key, None)
    return open_made(document, path, name)


@pytest.fixture
def mlp() -> Trace:
    return recorded("mlp_eager")


@pytest.fixture
def compiled() -> Trace:
    return recorded("mlp_compiled")
