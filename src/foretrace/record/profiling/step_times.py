"""Times of steps without the profiler: blocks of steps, each of which ends with the device idle.

A `Capture` and a recorded script time their steps after the window is written. A loop that ends
before has lost nothing then, and one that goes on gives the spread that `foretrace compare` needs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Generator, Sequence
from time import perf_counter_ns

import torch

from foretrace.record.profiling.run_record import CallTimes, on_cuda

SETTLING = 2  # steps after the profiler stopped that do not count
BLOCKS, LEAST_BLOCKS = 10, 3  # blocks that are timed; fewer than the second have no spread
MOST_STEPS = 50  # of a block
BLOCK_NS = 50_000_000  # shorter blocks measure the scheduler
LIMIT_NS = 30_000_000_000  # slow steps: what was timed until then is enough

Batch = tuple[int, int]  # wall and host nanoseconds per step


class StepTimes:
    """Call `step` when a step ends, and `keep` at the end."""

    def __init__(self, timing: CallTimes) -> None:
        self.timing = timing
        self.is_over = False
        self._blocks: list[Batch] = []
        self._steps = 0
        self._plan = self._timed()
        next(self._plan)

    def step(self) -> bool:
        """A step has ended; returns whether enough are timed."""
        if not self.is_over:
            self.is_over = next(self._plan, True) is True
        return self.is_over

    def keep(self) -> bool:
        """Put the times into the record; returns whether there are enough."""
        self.is_over = True
        if len(self._blocks) < LEAST_BLOCKS:
            return False
        keep_times(self.timing, self._blocks, self._steps)
        return True

    def _timed(self) -> Generator[None, None, None]:
        for _ in range(SETTLING):
            yield
        ends, count = perf_counter_ns() + LIMIT_NS, 1
        while len(self._blocks) < BLOCKS and perf_counter_ns() < ends:
            block = yield from _block(count)
            longer = min(math.ceil(BLOCK_NS / block[0]), MOST_STEPS)
            if longer > count and not self._blocks:  # it only told how long a block must be
                count = longer
                continue
            self._blocks.append(block)
            self._steps += count


def _block(count: int) -> Generator[None, None, Batch]:
    synchronize()
    began = perf_counter_ns()
    for _ in range(count):
        yield
    issued = perf_counter_ns()
    synchronize()
    return max(perf_counter_ns() - began, 1) // count, (issued - began) // count


def keep_times(timing: CallTimes, batches: Sequence[Batch], calls: int) -> None:
    """The medians of batches, their wall times, and the range of these over the median."""
    walls, hosts = zip(*batches, strict=True)
    wall_ns = int(statistics.median(walls))
    timing.wall_ns_per_call, timing.host_ns_per_call = wall_ns, int(statistics.median(hosts))
    timing.wall_spread = round((max(walls) - min(walls)) / wall_ns, 4) if wall_ns else None
    timing.block_ns, timing.calls_timed = list(walls), calls


def synchronize() -> None:
    """Wait for the accelerator, if this process uses one."""
    if on_cuda():
        torch.cuda.synchronize()
    elif hasattr(torch, "xpu") and torch.xpu.is_available():
        torch.xpu.synchronize()
