"""The ceilings of one file: seconds and memory, by a clock and a memory that the tests move."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import foretrace
from corpus.build import gz
from corpus.cases import G0
from corpus.places import RECORDED
from foretrace import read as sources
from foretrace.base import budget
from foretrace.base.budget import (
    Budget,
    Limits,
    apart,
    ceiling,
    keeps_everything,
    parse_limits,
    timed,
    waiting,
)
from foretrace.base.errors import LimitError
from foretrace.model import opening
from foretrace.read.bytestream import open_stream
from foretrace.read.kineto import assemble
from foretrace.schema.ledger import LedgerBuilder


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


def test_what_is_no_reading_is_not_counted(machine: Machine) -> None:
    """A tour that compiles models took the memory of torch for that of a trace."""
    with ceiling("t.json", Limits()) as whole:
        with apart():
            machine.used += 10 * whole.memory
            machine.now += 10 * whole.seconds
            budget.check()
        whole.check()
        machine.used += whole.memory + 1
        with pytest.raises(LimitError, match="memory"):
            whole.check()


def test_time_to_tidy_up(machine: Machine) -> None:
    """The ceiling is named once, and again where that was of no use."""
    work = Budget("t.json", Limits(seconds=1))
    machine.now += 2
    assert stopped(work)
    assert not stopped(work)
    machine.now += budget.GRACE_S
    assert stopped(work)


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


def test_a_container_that_gives_nothing(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gz(b"") * 40_000)
    machine.step = 1
    with ceiling(str(path), Limits(seconds=1)), pytest.raises(LimitError, match="E_TOO_SLOW"):
        next(open_stream(str(path), Limits(), LedgerBuilder()).blocks)


def test_an_error_comes_back_from_another_process() -> None:
    problem = LimitError("E_TOO_SLOW", "t.json", "takes long", offset=7, hint="wait")
    back = pickle.loads(pickle.dumps(problem))
    assert (type(back), str(back), back.__dict__) == (LimitError, str(problem), problem.__dict__)


def test_a_ceiling_changes_no_answer() -> None:
    """What was read below a ceiling may be kept; other limits may read less of the file."""
    assert keeps_everything(Limits(seconds=3, memory=1))
    assert not keeps_everything(Limits(depth=3))


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


def test_another_alarm_is_left_alone() -> None:
    """These tests have one, against tests that hang."""
    before, left = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    with timed():
        assert signal.getsignal(signal.SIGALRM) is before
        assert signal.getitimer(signal.ITIMER_REAL)[0] > left[0] // 2


@pytest.mark.parametrize(
    ("file", "name"), [("<frozen importlib._bootstrap>", "_load"), ("click/utils.py", "echo")]
)
def test_what_the_timer_leaves_alone(file: str, name: str, machine: Machine) -> None:
    """Half of a package stays behind otherwise; and a reader of the output may take its time."""
    inner = SimpleNamespace(f_code=SimpleNamespace(co_filename="t.py", co_name="f"))
    inner.f_back = SimpleNamespace(
        f_code=SimpleNamespace(co_filename=file, co_name=name), f_back=None
    )
    machine.step = 9
    with ceiling("t.json", Limits(seconds=1)):
        budget._ask(signal.SIGALRM, inner)  # type: ignore[arg-type]
        with pytest.raises(LimitError):
            budget._ask(signal.SIGALRM, None)


def test_before_any_file(machine: Machine) -> None:
    """The command itself has a name where no file was read yet."""
    with ceiling("", Limits(seconds=1)) as work:
        machine.now += 2
        with pytest.raises(LimitError, match="this command: takes longer"):
            work.check()


STUCK = """
import os, sys
from foretrace import read as sources
from foretrace.base.errors import LimitError
from foretrace.schema.ledger import LedgerBuilder
from foretrace.read.kineto import parallel
from foretrace.base import budget
from foretrace.base.budget import Limits

budget.PASSING = 0.0  # on a busy machine the wait alone would take all that is allowed
parallel.WORTHWHILE, parallel.PIECE, parallel.TAIL = 0, 48 << 10, 8 << 10
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


def test_stuck_workers_are_ended() -> None:
    """Their own timer ends them; the process that waited for them reads the file itself."""
    trace = str(RECORDED / "mlp_eager_train.json.gz")
    ran = subprocess.run([sys.executable, "-c", STUCK, trace], capture_output=True, text=True)
    assert (ran.stdout.split(), ran.stderr) == (["read", "alone"], "")
    assert os.path.exists(trace)
