"""Timing calls on a GPU, side by side.

Two times matter. `device`: how long the GPU works on a call whose launches are already queued, with
a cold L2. `call`: what a call costs in a row of calls, host and device together, whichever is
slower. Contenders are interleaved and their order rotates, so that clocks, heat and neighbours fall
on all of them alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

import torch

Call = Callable[[], object]


class Times(NamedTuple):
    """Microseconds: the median, and the quartiles around it."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: list[float]) -> Times:
        if len(values) == 1:
            return Times(values[0], values[0], values[0])
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        return Times(middle, low, high)


def device_times(
    calls: Mapping[str, Call], repeats: int = 21, *, cold: bool = True
) -> dict[str, Times]:
    """Device time of each call, warm, medians over `repeats` interleaved rounds; `cold` empties L2
    before each.
    """
    ahead = {name: _cycles_to_queue(call) for name, call in calls.items()}
    taken: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(repeats):
        marks = []
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            # The GPU waits here while the host queues the rest, so that the host's pace is not what
            # is timed.
            torch.cuda._sleep(ahead[name])
            if cold:
                _empty_l2()
            start.record()
            calls[name]()
            end.record()
            marks.append((name, start, end))
        torch.cuda.synchronize()
        for name, start, end in marks:
            taken[name].append(start.elapsed_time(end) * 1e3)
    return {name: Times.of(values) for name, values in taken.items()}


def call_times(
    calls: Mapping[str, Call], rounds: int = 5, at_least_s: float = 0.01
) -> dict[str, Times]:
    """Time per call in rows of calls without waiting in between: host and device together."""
    lengths = {
        name: min(300, max(3, int(at_least_s * 1e6 / _one_call(call))))
        for name, call in calls.items()
    }
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(lengths[name]):
                call()
            torch.cuda.synchronize()
            taken[name].append((time.perf_counter() - start) * 1e6 / lengths[name])
    return {name: Times.of(values) for name, values in taken.items()}


def _one_call(call: Call) -> float:
    """Microseconds one warm call takes from start to synchronised end."""
    call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e6


def _cycles_to_queue(call: Call) -> int:
    """GPU cycles that pass, at 2 GHz, while the host queues one warm call, with room to spare."""
    call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    host_us = (time.perf_counter() - start) * 1e6
    torch.cuda.synchronize()
    return int((min(host_us, 5000.0) * 1.5 + 60.0) * 2000)


@lru_cache
def _flood(device: int) -> torch.Tensor:
    size = torch.cuda.get_device_properties(device).L2_cache_size
    return torch.zeros(size, dtype=torch.float32, device=f"cuda:{device}")


def _empty_l2() -> None:
    """Read four times what L2 holds. Reading leaves nothing to be written back into the time that
    follows.
    """
    _flood(torch.cuda.current_device()).sum()
