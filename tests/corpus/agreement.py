"""Where the fast reader and the slow one must say the same, down to the nanosecond."""

from __future__ import annotations

from typing import Any

from corpus.cases import Opened
from reference_reader import Reading

TOTALS = (
    "kernels",
    "memcpys",
    "memsets",
    "launches",
    "syncs",
    "gpu_busy_ns",
    "gpu_span_ns",
    "cpu_ops",
)
STEP_FIELDS = (
    "name",
    "index",
    "cpu_ns",
    "kernels",
    "memcpys",
    "memsets",
    "gpu_busy_ns",
    "gpu_idle_ns",
)


def fast_totals(opened: Opened) -> dict[str, Any]:
    return {key: opened.totals[key] for key in TOTALS}


def step_tuples(steps: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """A step without GPU work has no GPU time: 0 and unknown are both honest, so they count as the
    same.
    """
    rows = []
    for step in steps:
        work = step["kernels"] + step["memcpys"] + step["memsets"]
        shown = step if work else step | {"gpu_busy_ns": None, "gpu_idle_ns": None}
        rows.append(tuple(shown[key] for key in STEP_FIELDS))
    return rows


def fast_steps(opened: Opened) -> list[tuple[Any, ...]]:
    return step_tuples(opened.doc["steps"])


def fast_regions(opened: Opened) -> dict[str, Any]:
    fields = ("count", "cpu_ns", "kernels_per_call", "gpu_busy_ns")
    return {row["name"]: {key: row[key] for key in fields} for row in opened.doc["regions"]}


def fast_kernels(opened: Opened) -> dict[str, Any]:
    """Rows are one per name and shapes; here one per name."""
    rows: dict[str, Any] = {}
    for row in opened.doc["kernels"]:
        into = rows.setdefault(row["name"], {"count": 0, "total_ns": 0})
        into["count"] += row["count"]
        into["total_ns"] += row["total_ns"] or 0
    return rows


def fast_ops(opened: Opened) -> dict[str, Any]:
    fields = ("count", "self_cpu_ns", "total_cpu_ns")
    return {row["name"]: {key: row[key] for key in fields} for row in opened.doc["ops"]}


def fast_links(opened: Opened) -> list[tuple[Any, ...]]:
    """Per kernel: name, start, length, launch, delay, op, and the number of its step."""
    rows = []
    for kernel in opened.kernels:
        step = None if kernel["step"] is None else opened.doc["steps"][kernel["step"]]["index"]
        dur = kernel["dur_ns"] if kernel["ts_ns"] is not None else None
        launch = (kernel["launch_name"], kernel["delay_ns"], kernel["op_name"])
        rows.append((kernel["name"], kernel["ts_ns"], dur, *launch, step))
    return sorted(rows, key=repr)


def busy_or_none(regions: dict[str, Any]) -> dict[str, Any]:
    return {
        name: row | {"gpu_busy_ns": row["gpu_busy_ns"] or None} for name, row in regions.items()
    }


def unknown_as_none(totals: dict[str, Any]) -> dict[str, Any]:
    """A trace without any GPU work has no GPU time: 0 and unknown are both honest, so they count as
    the same.
    """
    if totals["kernels"] == totals["memcpys"] == totals["memsets"] == 0:
        return totals | {"gpu_busy_ns": None, "gpu_span_ns": None}
    return totals


def assert_agree(opened: Opened, slow: Reading) -> None:
    assert unknown_as_none(fast_totals(opened)) == unknown_as_none(slow.totals)
    assert fast_steps(opened) == step_tuples(slow.steps)
    assert fast_kernels(opened) == slow.kernels
    assert fast_links(opened) == slow.links
    assert fast_ops(opened) == slow.ops
    assert busy_or_none(fast_regions(opened)) == busy_or_none(slow.regions)


def numbers(opened: Opened) -> dict[str, Any]:
    """Everything a person would read off the trace."""
    return {
        "totals": fast_totals(opened),
        "steps": fast_steps(opened),
        "kernels": fast_kernels(opened),
        "ops": fast_ops(opened),
        "regions": fast_regions(opened),
        "links": [
            (name, dur, launch, delay, op, step)
            for name, _, dur, launch, delay, op, step in fast_links(opened)
        ],
        "notes": {note.code: note.count for note in opened.ledger.notes},
    }
