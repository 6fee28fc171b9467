"""Simulated jobs that several tests read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.plan import Answer, Clock, Delay, Plan, write


@pytest.fixture(scope="session")
def small_job(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Answer]:
    """Four data-parallel ranks on two hosts: rank 2 computes longer, host 1 is 250 us ahead."""
    folder = tmp_path_factory.mktemp("small_job")
    late = Delay("compute", 900_000, ranks=(2,))
    plan = Plan(data=4, ranks_per_host=2, delays=(late,), clocks={1: Clock(250_000)})
    return folder, write(plan, folder)


@pytest.fixture(scope="session")
def gloo_job(made_once: Callable[..., Path]) -> Path:
    """The traces of four processes that train with gloo."""
    pytest.importorskip("torch")
    script = str(Path(__file__).with_name("gloo_script.py"))

    def train(folder: Path) -> None:
        command = [sys.executable, script, str(folder)]
        subprocess.run(command, check=True, timeout=300, stderr=subprocess.DEVNULL)

    return made_once("gloo", train) / "traces"
