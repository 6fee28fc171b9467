"""The ceilings of one file: seconds and memory, by a clock and a memory that the tests move."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import foretrace
from corpus.cases import G0
from corpus.places import RECORDED
from foretrace import read as sources
from foretrace.base import budget
from foretrace.base.budget import (
    Budget,
    Limits,
    ceiling,
    parse_limits,
    timed,
    waiting,
)
from foretrace.base.errors import LimitError
from foretrace.read.kineto import assemble
from foretrace.trace import opening


class Machine:
    """What time it is, and how much memory is used."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.used, self.step = 100.0, 0, 0.0
        monkeypatch.setattr(budget, "clock", self.clock)
        monkeypatch.setattr(budget, "held_memory", lambda: self.used)

    def clock(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def stopped(by: Budget) -> str:
    try:
        by.check()
    except LimitError as problem:
        return problem.code
    return ""


def test_seconds_grow_with_the_json(machine: Machine) -> None:
    work = Budget("t.json", Limits())
    machine.now += 30
    assert not stopped(work)
    machine.now += 10
    work.read = 10_000_000
    assert not stopped(work)
    machine.now += 1
    assert stopped(work) == "E_TOO_SLOW"


def test_memory_grows_with_the_json(machine: Machine) -> None:
    machine.used = 9 << 30  # what was there before is not the file's
    work = Budget("t.json", Limits())
    machine.used += 512 << 20
    assert not stopped(work)
    machine.used += 300
    work.read = 100
    assert not stopped(work)
    machine.used += 1
    assert stopped(work) == "E_TOO_MUCH_MEMORY"


def test_settings(machine: Machine) -> None:
    limits = parse_limits(("seconds=2", "memory=2GiB"))
    assert (limits.seconds, limits.memory) == (2, 2 << 30)
    work = Budget("a\nb.json", limits)
    work.read = 1 << 40
    machine.now += 3
    with pytest.raises(LimitError) as problem:
        work.check()
    assert str(problem.value) == (
        "a\\nb.json: takes longer than 2 s [E_TOO_SLOW]; raise it with --limit seconds=NUMBER"
    )


def test_waiting_is_not_counted(machine: Machine) -> None:
    """A pipe may take its time, also when the timer asks meanwhile."""
    with ceiling("t.json", Limits(seconds=5)) as work:
        with waiting(), waiting():
            machine.now += 100
            work.check()
        machine.now += 5
        work.check()
        machine.now += 1
        assert stopped(work) == "E_TOO_SLOW"


def test_a_command_waits_for_its_files(machine: Machine) -> None:
    """Each file has its own time; what follows has a time for all that was read."""
    with ceiling("", Limits()) as command:
        for name in ("a.json", "b.json"):
            with ceiling(name, Limits()) as work:
                work.read = 1_000_000
                machine.now += 31
                budget.check()
        machine.now += 32
        budget.check()
        machine.now += 1
        assert stopped(command) == "E_TOO_SLOW"
        assert command.label == "a.json"
    budget.check()  # of nothing


def test_out_of_memory_names_the_file() -> None:
    says = pytest.raises(LimitError, match=r"t\.json: .*E_TOO_MUCH_MEMORY.*--limit memory")
    with says, ceiling("t.json", Limits()):
        raise MemoryError


def test_no_memory_for_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MemoryError is one line about the file, in the library as well."""

    def full(*_: object) -> None:
        raise MemoryError

    path = tmp_path / "t.json"
    path.write_bytes(G0)
    monkeypatch.setattr(assemble, "assemble", full)
    with pytest.raises(LimitError, match="E_TOO_MUCH_MEMORY"):
        foretrace.open(path)


@pytest.mark.parametrize("read", [sources.read, opening.open])
def test_library(read: object, machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(G0)
    machine.step = 1
    with pytest.raises(LimitError, match="E_TOO_SLOW"):
        read(str(path), limits=Limits(seconds=1))  # type: ignore[operator]
    read(str(path), limits=Limits(seconds=10**6))  # type: ignore[operator]


@pytest.fixture
def free_alarm() -> Iterator[None]:
    """The alarm as a command finds it; the tests use it themselves."""
    handler, left = signal.signal(signal.SIGALRM, signal.SIG_DFL), signal.alarm(0)
    yield
    signal.signal(signal.SIGALRM, handler)
    signal.alarm(left)


@pytest.mark.usefixtures("free_alarm")
def test_the_timer_stops_a_regular_expression(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing in the loop checks; the name takes some seconds without the timer."""
    monkeypatch.setattr(budget, "EVERY_S", 0.01)
    machine.step = 1
    with timed(), ceiling("t.json", Limits(seconds=1)), pytest.raises(LimitError, match="SLOW"):
        re.match(r"(a+)+$", "a" * 25 + "b")
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


STUCK = """
import os, sys
from foretrace import read as sources
from foretrace.base.errors import LimitError
from foretrace.read.ledger import LedgerBuilder
from foretrace.read.kineto import document, parallel
from foretrace.base import budget
from foretrace.base.budget import Limits

budget.PASSING = 0.0  # on a busy machine the wait alone would take all that is allowed
document.WORTHWHILE, parallel.PIECE, parallel.TAIL = 0, 48 << 10, 8 << 10
parallel.cores = lambda: 2
here, run = os.getpid(), parallel.EventReader.run

def stuck(self, first):
    while os.getpid() != here:
        pass
    return run(self, first)

parallel.EventReader.run = stuck
try:
    sources.read(sys.argv[1], Limits(seconds=1))
    print("read")
except LimitError as problem:
    print(problem.code)
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("alone")
"""


@pytest.mark.sweep
def test_stuck_workers_are_ended() -> None:
    """Their own timer ends them; the process that waited for them reads the file itself."""
    trace = str(RECORDED / "mlp_eager_train.json.gz")
    ran = subprocess.run([sys.executable, "-c", STUCK, trace], capture_output=True, text=True)
    assert (ran.stdout.split(), ran.stderr) == (["read", "alone"], "")
    assert os.path.exists(trace)
