"""Which GPU work belongs to which call: marks with a number stand between the calls of a trace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

MARK = "mark_kernel"
_WIDE = 64
_WORK = ("kernel", "gpu_memset", "gpu_memcpy")
Event = dict[str, Any]


def mark_grid(number: int) -> tuple[int, int, int]:
    """The grid of a mark's launch carries its number."""
    return 1 + number % _WIDE, 1 + number // _WIDE, 1


def marked_number(grid: Sequence[int]) -> int:
    """The number that a grid carries."""
    return (grid[0] - 1) + (grid[1] - 1) * _WIDE


def segments(events: Iterable[Event]) -> dict[int, list[Event]]:
    """GPU work by the number of the last mark before it; nothing else needs to be complete."""
    found: dict[int, list[Event]] = {}
    current = 0
    work = (event for event in events if event.get("cat") in _WORK and "ts" in event)
    for event in sorted(work, key=lambda event: float(event["ts"])):
        if MARK in event["name"]:
            current = marked_number(event["args"]["grid"])
        else:
            found.setdefault(current, []).append(event)
    return found


def summary(cold: Sequence[list[Event]], warm: Sequence[list[Event]]) -> dict[str, Any]:
    """The kernels of a call, in order, and the times of its repeats; `error` without any."""
    cold, warm = ([call for call in calls if call] for calls in (cold, warm))
    if not cold or not warm:
        return {"error": "the recording holds no GPU work of this matmul"}
    names = [[event["name"] for event in call] for call in (*cold, *warm)]
    usual = max(names, key=names.count)
    cold, warm = (
        [call for call in calls if [event["name"] for event in call] == usual]
        for calls in (cold, warm)
    )
    found = {
        "kernels": [_kernel(cold, warm, position) for position in range(len(usual))],
        "cold_us": [_total(call) for call in cold],
        "warm_us": [_total(call) for call in warm],
        "span_us": _median(
            max(float(event["ts"]) + float(event["dur"]) for event in call)
            - min(float(event["ts"]) for event in call)
            for call in warm
        ),
    }
    differing = sum(name != usual for name in names)
    return {**found, "differing": differing} if differing else found


def _kernel(
    cold: Sequence[list[Event]], warm: Sequence[list[Event]], position: int
) -> dict[str, Any]:
    event = (warm or cold)[-1][position]
    args = event.get("args", {})
    return {
        "name": event["name"],
        "grid": args.get("grid"),
        "block": args.get("block"),
        "registers": args.get("registers per thread"),
        "shared_memory": args.get("shared memory"),
        "cold_us": _median(call[position]["dur"] for call in cold),
        "warm_us": _median(call[position]["dur"] for call in warm),
    }


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return round(median(found), 3) if found else None


def _total(call: list[Event]) -> float:
    return round(sum(float(event["dur"]) for event in call), 3)
