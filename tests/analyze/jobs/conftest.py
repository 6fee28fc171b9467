"""Simulated jobs that several tests read."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyze.jobs.plan import Answer, Clock, Delay, Plan, write


@pytest.fixture(scope="session")
def small_job(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Answer]:
    """Four data-parallel ranks on two hosts: rank 2 computes longer, host 1 is 250 us ahead."""
    folder = tmp_path_factory.mktemp("small_job")
    late = Delay("compute", 900_000, ranks=(2,))
    plan = Plan(data=4, ranks_per_host=2, delays=(late,), clocks={1: Clock(250_000)})
    return folder, write(plan, folder)
