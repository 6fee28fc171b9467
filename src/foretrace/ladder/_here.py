"""Visits one stop of a climb on this machine. The only part of a climb that imports torch."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterator
from pathlib import Path

import torch

from foretrace.errors import ForetraceError, MissingError
from foretrace.ladder import rung
from foretrace.ladder._climb import climb, find_device
from foretrace.ladder._refused import first_line
from foretrace.ladder._stops import Stop


def device_name(wanted: str) -> tuple[str, str]:
    """`cuda` or `cpu`, and what it is called."""
    device = find_device(wanted)
    return (
        device,
        torch.cuda.get_device_name() if device == "cuda" else f"CPU ({platform.machine()})",
    )


def torch_version() -> str:
    return str(torch.__version__)


def visit(stop: Stop, device: str, folder: Path) -> Path:
    """Run a stop and capture it; whatever goes wrong is one line, since the rest of the ladder can
    still be climbed.
    """
    if device == "cpu" and stop.gpu_only:
        raise MissingError(stop.gpu_only)
    torch._dynamo.reset()  # as if each stop had its own process: no frame counts as compiled again
    with in_one_line():
        done = climb(rung(stop.rung), stop.choice(device), folder, overwrite=True)
    assert done.trace is not None
    return done.trace


@contextlib.contextmanager
def in_one_line(before: str = "") -> Iterator[None]:
    """Whatever goes wrong inside is a `MissingError` of one line."""
    try:
        yield
    except ForetraceError:
        raise
    except Exception as problem:
        raise MissingError(f"{before}{first_line(problem)}") from problem
