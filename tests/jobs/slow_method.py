"""The tables of a rank by a second, slow method: every moment between two edges is asked by itself."""

from __future__ import annotations

import gzip
import json
from bisect import bisect_left
from itertools import pairwise
from pathlib import Path
from typing import Any

COLUMNS = ("compute_ns", "comms_ns", "both_ns", "copy_ns", "idle_ns", "data_ns", "host_ns")


class Moments:
    """What runs between any two neighbouring edges of the GPU work and the data loader of a file."""

    def __init__(self, path: Path) -> None:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rb") as file:
            document = json.loads(file.read(), parse_float=str)
        base = document.get("baseTimeNanoseconds", 0)
        self.events = [
            (_ns(each["ts"]) + base, _ns(each["ts"]) + base + _ns(each["dur"]), each)
            for each in document["traceEvents"]
            if each.get("ph") == "X"
        ]
        marked = [(start, end, kind) for start, end, each in self.events if (kind := _kind(each))]
        self.edges = sorted({moment for start, end, _ in marked for moment in (start, end)})
        self.running: list[set[str]] = [set() for _ in self.edges]
        for start, end, kind in marked:
            for at in range(bisect_left(self.edges, start), bisect_left(self.edges, end)):
                self.running[at].add(kind)

    def between(self, start: int, end: int) -> dict[str, int]:
        """The times of `steps` in a stretch."""
        spent = dict.fromkeys(COLUMNS, 0)
        moments = [start, *(edge for edge in self.edges if start < edge < end), end]
        for low, high in pairwise(moments):
            at = bisect_left(self.edges, low + 1) - 1
            running = self.running[at] if 0 <= at < len(self.edges) - 1 else set[str]()
            for column in _columns(running):
                spent[column] += high - low
        return spent


def _columns(running: set[str]) -> list[str]:
    work = running - {"data"}
    found = [f"{kind}_ns" for kind in ("compute", "comms") if kind in work]
    if len(found) == 2:
        found.append("both_ns")
    if work == {"copy"}:
        found.append("copy_ns")
    if not work:
        found += ["idle_ns", "data_ns" if running else "host_ns"]
    return found


def _kind(event: dict[str, Any]) -> str:
    if event["cat"] == "kernel":
        return "comms" if "nccl" in event["name"] else "compute"
    if event["cat"] in ("gpu_memcpy", "gpu_memset"):
        return "copy"
    return "data" if "DataLoader" in event["name"] else ""


def _ns(written: Any) -> int:
    """Microseconds with up to three decimals, exactly."""
    whole, _, part = str(written).partition(".")
    return int(whole) * 1000 + int((part + "000")[:3])
