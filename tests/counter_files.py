"""Exports of Nsight Compute for tests: those of an H200, and made-up ones."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from foretrace.read.ncu import CounterLaunch, read_export
from foretrace.record.experiments.gemms.events import marked_number

FOLDER = Path(__file__).parent / "data" / "ncu"
PLAN: dict[str, list[list[Any]]] = json.loads((FOLDER / "h200_plan.json").read_text())
HEAD = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
    "Block Size", "Grid Size", "Device", "CC",
)  # fmt: skip
METRICS = {
    "dram__bytes_read.sum": "byte",
    "dram__bytes_write.sum": "byte",
    "gpu__time_duration.sum": "ns",
    "profiler__replayer_passes": "pass",
}


def recorded(name: str) -> str:
    """The text of a log of the H200."""
    return gzip.decompress((FOLDER / f"h200_{name}.csv.gz").read_bytes()).decode()


@cache
def planned(name: str, plan: str) -> dict[str, tuple[CounterLaunch, dict[str, Any]]]:
    """The counted launches of a log by name, with what each should move."""
    names = {number: (label, expected) for number, label, expected in PLAN[plan]}
    found = {}
    number = 0
    for launch in read_export(recorded(name), name).launches:
        if launch.name == "mark_kernel":
            number = marked_number(launch.grid)
        else:
            label, expected = names[number]
            found[label] = (launch, expected)
    return found


def row(
    name: str,
    *values: object,
    number: int = 0,
    grid: Sequence[int] = (4, 1, 1),
    block: Sequence[int] = (128, 1, 1),
    process: int = 7,
) -> list[str]:
    """One launch of an export."""
    shape = (f"({', '.join(map(str, block))})", f"({', '.join(map(str, grid))})")
    front = (number, process, "python3", "127.0.0.1", name, 1, 7, *shape, 0, "9.0")
    return [str(cell) for cell in (*front, *values)]


def export_text(rows: Iterable[Sequence[str]], metrics: dict[str, str] | None = None) -> str:
    """A page `raw` with these rows, as `ncu` writes it."""
    metrics = METRICS if metrics is None else metrics
    out = io.StringIO()
    out.write("==PROF== Connected to process 7 (/usr/bin/python3)\n")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow([*HEAD, *metrics])
    writer.writerow([*[""] * len(HEAD), *metrics.values()])
    writer.writerows(rows)
    return out.getvalue()
