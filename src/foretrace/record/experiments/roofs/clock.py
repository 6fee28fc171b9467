"""How long GPU work takes: events around it, while earlier work keeps the GPU busy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch

Work = Callable[[], object]
REPEATS = 7
AHEAD = 200_000  # GPU cycles, about 100 us: the host queues a launch meanwhile


class Timing(NamedTuple):
    """Microseconds of one call: median, fastest and slowest."""

    median_us: float
    low_us: float
    high_us: float

    def fields(self) -> dict[str, float]:
        """As JSON keeps them."""
        return {name: round(value, 4) for name, value in self._asdict().items()}


def timing(
    work: Work, repeats: int = REPEATS, *, ahead: int = AHEAD, before: Work | None = None
) -> Timing:
    """Device time of one call, after two warm ones; the host queues it within `ahead` cycles.

    `before` runs ahead of every call and is not timed.
    """
    for _ in range(2):
        work()
    torch.cuda.synchronize()
    marks = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if before is not None:
            before()
        torch.cuda._sleep(ahead)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        marks.append(start.elapsed_time(end) * 1e3)
    return Timing(statistics.median(marks), min(marks), max(marks))


def sustained_us(work: Work, one_us: float, seconds: float = 0.3) -> float:
    """Device time of a call in a row of calls that takes `seconds`: clocks and power settle."""
    calls = max(3, int(seconds * 1e6 / one_us))
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    work()
    start.record()
    for _ in range(calls):
        work()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e3 / calls


def host_us(work: Work, calls: int, repeats: int = REPEATS) -> Timing:
    """Host time of one call, among calls that find the queue short."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    work()
    taken = []
    for _ in range(repeats):
        wait()
        start = time.perf_counter()
        for _ in range(calls):
            work()
        taken.append((time.perf_counter() - start) / calls * 1e6)
    wait()
    return Timing(statistics.median(taken), min(taken), max(taken))


def wall_us(work: Work, repeats: int = 21) -> Timing:
    """Host time of one call until the GPU has finished it."""
    for _ in range(3):
        work()
    taken = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - start) * 1e6)
    return Timing(statistics.median(taken), min(taken), max(taken))


def warm_up(seconds: float = 1.0) -> None:
    """Multiply until the clocks are those of a busy GPU."""
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(20):
            torch.mm(a, a)
        torch.cuda.synchronize()
