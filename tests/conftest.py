"""What every test can rely on: no cache outside the folder of the run, and no test that hangs."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import settings

# `corpus` and `reference_reader`, however the tests are collected
sys.path.insert(0, str(Path(__file__).parent))
# the checks of the cases are asserts too, and should say what they saw
pytest.register_assert_rewrite("corpus")

# Several tests run at a time: threads of torch that wait for each other, and processes that its
# compiler starts ahead, would take what another test computes with.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

# Far above any test: this is no measurement, it turns a hang into a failure.
FULL = os.environ.get("FORETRACE_SWEEP") == "full"
HANG_S = 3600 if FULL else 600

# The same examples in every run, so that a change fails for what it changed; the full sweep looks
# for new ones.
settings.register_profile("sample", deadline=None, database=None, derandomize=True, max_examples=50)
settings.register_profile("full", deadline=None)
settings.load_profile("full" if FULL else "sample")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what `sampled.txt` lists, unless the sweep is full or a test is asked for."""
    if FULL or any("::" in asked for asked in config.args):
        return
    left: list[pytest.Item] = []
    for every, start in _sampled():
        cases = [item for item in items if f"{item.nodeid}[".startswith(start)]
        left += [case for at, case in enumerate(cases) if not every or at % every]
    dropped = {item.nodeid for item in left}
    items[:] = [item for item in items if item.nodeid not in dropped]
    config.hook.pytest_deselected(items=left)


def _sampled() -> Iterator[tuple[int, str]]:
    """How many cases stand for one that runs, and how their names start."""
    for line in Path(__file__).with_name("sampled.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            every, _, start = line.partition(" ")
            yield int(every), f"tests/{start.strip()}"


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: no later collection goes through it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Caches go into a folder of this run, never into the home of whoever runs the tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    for name in ("CI", "BUILD_NUMBER"):  # there, an undecided prediction fails
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache that keeps traces of any size, and repeats its notices."""
    monkeypatch.setenv("FORETRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("foretrace.base.notices._said", set())
    monkeypatch.setattr("foretrace.read.cache.WORTHWHILE_BYTES", 0)
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def cpu_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a GeGLU MLP that Inductor compiled for this CPU; `geglu_script.why` beside it.

    One compile for all tests that read it, in whichever worker: copy what you change.
    """
    pytest.importorskip("torch")
    if not any(shutil.which(name) for name in ("g++", "clang++")):
        pytest.skip("torch.compile needs a C++ compiler on a CPU")
    base = tmp_path_factory.getbasetemp()
    # the folders of xdist's workers lie in one folder of the run
    folder = (base.parent if base.name.startswith("popen-") else base) / "compiled"
    folder.mkdir(exist_ok=True)
    trace = folder / "geglu_script.json.gz"
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not trace.exists():
            _record(folder)
    return trace


def _record(folder: Path) -> None:
    script = str(Path(__file__).with_name("geglu_script.py"))
    line = [sys.executable, "-m", "foretrace", "record", "--why", "--no-look", "-o", str(folder)]
    # what the user exports must not change what is recorded
    unset = ("TORCH_", "TORCHINDUCTOR_", "INDUCTOR_", "RANK", "WORLD_SIZE")
    given = {name: value for name, value in os.environ.items() if not name.startswith(unset)}
    given["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    done = subprocess.run([*line, script], capture_output=True, text=True, env=given)
    assert done.returncode == 0, done.stderr


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    def stop(signum: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"still running after {HANG_S} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(HANG_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
