"""Simulated jobs that several tests read."""

from __future__ import annotations

import fcntl
import subprocess
import sys
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


@pytest.fixture(scope="session")
def gloo_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The traces of four processes that train with gloo, recorded once for all workers of a run."""
    pytest.importorskip("torch")
    base = tmp_path_factory.getbasetemp()
    # the folders of xdist's workers lie in one folder of the run
    folder = (base.parent if base.name.startswith("popen-") else base) / "gloo"
    folder.mkdir(exist_ok=True)
    script = str(Path(__file__).with_name("gloo_script.py"))
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "traces").exists():
            subprocess.run(
                [sys.executable, script, str(folder)], check=True, timeout=120, stderr=-3
            )
    return folder / "traces"
