"""What the run record beside a trace knows of its times: `run.json.gz` has `run.run.json`, written
by `foretrace run`.

A trace holds times with the profiler on, which slows the host two- to fourfold. The record holds
the same call without it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from foretrace.comparison.measure import Sample
from foretrace.comparison.repeats import Unit

KIND = "foretrace-run"
# A run record is a few kilobytes; anything larger beside a trace is something else.
RECORD_BYTES = 1 << 20
UNKNOWN = Sample(None, None)
# What a record may state: a call of a nanosecond to 30 years, and a cost of at most as long.
# Arithmetic stays finite.
MOST_NS, MOST_S = 1e18, 1e9


@dataclass(frozen=True, slots=True)
class Record:
    """Times without the profiler, each None where it was not measured; `region` names the call that
    was timed.

    The spread of `wall` is the range of its batches, which is wider than a standard deviation.
    """

    region: str | None = None
    compile_s: float | None = None
    wall: Sample = UNKNOWN
    host_ns: float | None = None

    def times(self, unit: Unit) -> bool:
        """Whether the call it timed is the unit: a call is one step, and the region around it has
        its name.
        """
        return unit.kind == "step" or (unit.kind == "region" and unit.name == self.region)


def read_record(path: str) -> Record:
    """The record beside a trace; an empty one where there is none, or what is there is no record of
    ours.
    """
    stem = next(
        (path.removesuffix(suffix) for suffix in (".json.gz", ".json") if path.endswith(suffix)),
        None,
    )
    document = (
        _document(stem + ".run.json")
        if stem is not None and os.path.isfile(stem + ".run.json")
        else None
    )
    if not isinstance(document, dict) or document.get("kind") != KIND:
        return Record()
    timing, region = _part(document, "timing"), _part(document, "rung").get("region")
    wall, spread = (
        _within(timing.get("wall_ns_per_call"), 1, MOST_NS),
        _within(timing.get("wall_spread"), 0, MOST_S),
    )
    return Record(
        region if isinstance(region, str) else None,
        _within(_part(document, "compile").get("seconds"), 0, MOST_S),
        Sample(wall, wall * spread if wall is not None and spread is not None else None),
        _within(timing.get("host_ns_per_call"), 1, MOST_NS),
    )


def _document(path: str) -> Any:
    try:
        with open(path, "rb") as file:
            return (
                json.loads(file.read()) if os.fstat(file.fileno()).st_size <= RECORD_BYTES else None
            )
    except (OSError, ValueError, RecursionError):
        return None


def _part(document: dict[str, Any], name: str) -> dict[str, Any]:
    part = document.get(name)
    return part if isinstance(part, dict) else {}


def _within(value: Any, least: float, most: float) -> float | None:
    known = (
        isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
    )
    return float(value) if known else None
