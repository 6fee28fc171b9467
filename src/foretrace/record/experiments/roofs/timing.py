"""How long work takes on a GPU or a host, and figures that are measured one by one."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch

Work = Callable[[], object]
Found = dict[str, dict[str, dict[str, Any]]]  # figures by group and name
SAY_EVERY_S = 8.0
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


class Figure(NamedTuple):
    """What is measured: its group, its name there, and how."""

    group: str
    name: str
    measure: Callable[[], dict[str, Any]]


def measured(
    figures: Iterable[Figure], say: Callable[[str], None], budget_s: float = 600.0
) -> Found:
    """Figures by group and name; `error` instead of a figure that could not be measured."""
    found: Found = {}
    began = said = time.monotonic()
    for figure in figures:
        now = time.monotonic()
        if now - said > SAY_EVERY_S:
            said = now
            say(f"{now - began:5.0f} s  {figure.group}: {figure.name}")
        late = now - began > budget_s
        result = {"error": "no time was left"} if late else _one(figure)
        found.setdefault(figure.group, {})[figure.name] = result
    return found


def _one(figure: Figure) -> dict[str, Any]:
    start = time.time()
    try:
        result = figure.measure()
    except Exception as problem:  # noqa: BLE001 - the next figure may still be measured
        result = {"error": f"{type(problem).__name__}: {problem}"[:500]}
        gc.collect()  # what the failed one held on the GPU
    return {**result, "at": round(start, 2), "seconds": round(time.time() - start, 3)}
