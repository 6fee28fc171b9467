"""The traces that statements are checked on: recordings of the package and of the tests.

FORETRACE_PUBLIC_TRACES may name a folder with more, which are read in place.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import foretrace as ft
from foretrace.read import recordings
from opened_traces import opened

OWN = Path(__file__).parent.parent / "recorded"
LADDER = recordings.folder("h200") / "ladder"
MORE = os.environ.get("FORETRACE_PUBLIC_TRACES", "")


def every() -> list[Path]:
    """All of them, by path."""
    shipped = recordings.traces() | recordings.ladder() | recordings.decoding()
    found = [*shipped.values(), *OWN.glob("*.json.gz")]
    more = Path(MORE).parent.rglob("*.json.gz") if MORE else []
    return sorted([*found, *more])


def name_of(path: Path) -> str:
    """What a test is called."""
    return "/".join(path.parts[-2:]).removesuffix(".json.gz")


@cache
def ladder(name: str) -> ft.Trace:
    """A recording of the ladder by the beginning of its name."""
    (path,) = LADDER.glob(f"{name}_bf16.json.gz")
    return opened(path)
