"""How long work takes on a GPU, and what a figure is."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import torch

Work = Callable[[], object]
AHEAD = 200_000  # GPU cycles, about 100 us: the host queues a launch meanwhile


class Figure(NamedTuple):
    """What is measured: its group, its name there, and how."""

    group: str
    name: str
    measure: Callable[[], float]


def timing(work: Work, repeats: int = 7, *, before: Work | None = None) -> float:
    """Microseconds of one call on the device, after two warm ones: the median.

    `before` runs ahead of every call and is not timed.
    """
    for _ in range(2):
        work()
    torch.cuda.synchronize()
    taken: list[float] = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if before is not None:
            before()
        torch.cuda._sleep(AHEAD)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        taken.append(start.elapsed_time(end) * 1e3)
    return median(taken)
