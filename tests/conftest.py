"""What every test can rely on: no cache outside the folder of the run, and no test that hangs."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

# `corpus` and `reference_reader`, however the tests are collected
sys.path.insert(0, str(Path(__file__).parent))
import sweep
from sweep import (  # noqa: F401 - hooks
    pytest_collection_modifyitems,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
)

# the checks of the cases are asserts too, and should say what they saw
pytest.register_assert_rewrite("corpus")

# Several tests run at a time: threads of torch that wait for each other, and processes that its
# compiler starts ahead, would take what another test computes with.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

# Far above any test: this is no measurement, it turns a hang into a failure.
HANG_S = 3600 if sweep.FULL else 600

# The same examples in every run, so that a change fails for what it changed; the full sweep looks
# for new ones.
settings.register_profile("sample", deadline=None, database=None, derandomize=True, max_examples=50)
settings.register_profile("full", deadline=None)
settings.load_profile("full" if sweep.FULL else "sample")
if not sweep.FULL:
    # It draws from the constants of every module that is loaded as well: the examples would depend
    # on the tests that ran before, and every worker would parse all of the source.
    providers._get_local_constants = lambda: providers._local_constants


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
    monkeypatch.setattr("foretrace.base.errors._said", set())
    monkeypatch.setattr("foretrace.read.cache.WORTHWHILE_BYTES", 0)
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`made_once(name, make)`: a folder that `make` fills once in a run, in whichever worker: copy what you change."""
    base = tmp_path_factory.getbasetemp()
    # the folders of xdist's workers lie in one folder of the run
    run = base.parent if base.name.startswith("popen-") else base

    def folder(name: str, make: Callable[[Path], object]) -> Path:
        place, made = run / name, run / f"{name}.made"
        with open(run / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                shutil.rmtree(place, ignore_errors=True)
                place.mkdir()
                make(place)
                made.touch()
        return place

    return folder


@pytest.fixture(scope="session")
def cpu_bundle(made_once: Callable[..., Path]) -> Path:
    """The trace of a GeGLU MLP that Inductor compiled for this CPU; `geglu_script.why` beside it."""
    pytest.importorskip("torch")
    if not any(shutil.which(name) for name in ("g++", "clang++")):
        pytest.skip("torch.compile needs a C++ compiler on a CPU")
    return made_once("compiled", _record) / "geglu_script.json.gz"


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
