"""Where the GPU's clock stands: launches that met an idle GPU, long waits, and what proves nothing."""

from __future__ import annotations

import numpy as np
import pytest

from foretrace.read.kineto.assemble import GpuLag, LaunchedWork, gpu_lag

NONE = np.empty(0, np.int64)


def work(called: list[int], start: list[int], length: int = 5) -> LaunchedWork:
    """Kernels on one device; times are in microseconds."""
    launched, began = (np.array(each, np.int64) * 1_000 for each in (called, start))
    count = np.arange(len(called))
    return LaunchedWork(count, launched, began, began + length * 1_000, count * 0)


def waits(start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    return np.array([start * 1_000]), np.array([end * 1_000])


@pytest.mark.parametrize("late", [0, 200, -300])
def test_launches_that_met_an_idle_gpu_say_it(late: int) -> None:
    found = work([0, 100, 200], [7 + late, 107 + late, 210 + late])
    assert gpu_lag(found, NONE, NONE) == GpuLag(late * 1_000, True)


@pytest.mark.parametrize("late", [0, 200, -300])
def test_a_long_wait_says_it_where_all_launches_met_a_busy_gpu(late: int) -> None:
    """All work is launched within 30 us, and runs 2 ms later without a pause."""
    found = work([0, 10, 20], [2_000 + late, 2_500 + late, 3_000 + late], 500)
    assert gpu_lag(found, *waits(30, 3_508)) == GpuLag(late * 1_000, True)


def test_without_either_the_quickest_launch_is_taken_as_quick() -> None:
    found = work([0, 10, 20], [2_000, 2_500, 3_000], 500)
    assert gpu_lag(found, NONE, NONE) == GpuLag(1_993_000, False)
    # a short wait may have found nothing to wait for
    assert gpu_lag(found, *waits(4_000, 4_010)) == GpuLag(1_993_000, False)


def test_work_before_its_launch_and_after_its_wait_proves_an_offset() -> None:
    early = work([0, 10, 20], [-900, -400, 100], 500)
    assert gpu_lag(early, NONE, NONE) == GpuLag(-907_000, True)
    late = work([0, 10, 20], [2_000, 2_500, 3_000], 500)
    assert gpu_lag(late, *waits(30, 90)) == GpuLag(1_993_000, True)


def test_one_false_time_of_many_moves_nothing() -> None:
    starts = [100 * at + 7 for at in range(200)]
    starts[3] -= 50
    assert gpu_lag(work([100 * at for at in range(200)], starts), NONE, NONE) == GpuLag(0, True)


@pytest.mark.parametrize("late", [0, 200, -300])
def test_a_gpu_that_idles_between_steps_alone_says_it(late: int) -> None:
    """The two launches of 400 that met it idle are fewer than one of a hundred."""
    queued = [(10 * at, 7 + 100 * at + late) for at in range(200)]
    pairs = [
        (called + 40_000 * step, start + 40_000 * step)
        for step in range(3)
        for called, start in queued
    ]
    called, start = zip(*pairs, strict=True)
    assert gpu_lag(work([*called], [*start], 100), NONE, NONE) == GpuLag(late * 1_000, True)


def test_a_trace_without_launches_says_nothing() -> None:
    assert gpu_lag(work([], []), NONE, NONE) == GpuLag()
