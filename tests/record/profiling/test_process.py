"""A script that forks, is told to end, or takes our streams away: the recording is kept."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from foretrace import capture  # noqa: E402
from foretrace.cli import main  # noqa: E402
from foretrace.record.profiling.script import record_script  # noqa: E402
from foretrace.record.profiling.script_hooks import EndingSignals  # noqa: E402

pytestmark = pytest.mark.torch

Record = Callable[[Path], dict[str, Any]]

FORKS = """
import os, sys, torch
torch.ones(4, 4) @ torch.ones(4, 4)
child = os.fork()
if not child:
    torch.ones(4, 4) @ torch.ones(4, 4)
    sys.exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
"""
TOLD_TO_END = """
import os, signal, torch
torch.ones(4, 4) @ torch.ones(4, 4)
os.kill(os.getpid(), signal.SIGNAL)
raise AssertionError("unreachable")
"""
ENDS_A_WORKER = """
import os, signal, torch
torch.ones(4, 4) @ torch.ones(4, 4)
child = os.fork()
if not child:
    signal.pause()
os.kill(child, signal.SIGTERM)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
"""
TAKES_STREAMS = """
import sys, torch
sys.excepthook = lambda kind, problem, where: print("hook:", problem, file=sys.__stderr__)
torch.ones(4, 4) @ torch.ones(4, 4)
sys.stdout.close()
raise ValueError("half-way")
"""

COLLECTS = "import gc, sys; print('limits', *gc.get_threshold(), file=sys.stderr)"


def _recorded(tmp_path: Path, text: str) -> tuple[int, Path]:
    script = tmp_path / "script.py"
    script.write_text(text, encoding="utf-8")
    done = record_script(str(script), (), tmp_path / "out" / "script")
    (trace,) = done.traces
    return done.exit_code, trace


# What forks or closes streams does so in a process that has no threads of other tests.
EACH = """
import sys
from foretrace.cli import main
for name in sys.argv[1:]:
    print(main(["record", "--no-look", "-o", "out", name]), file=sys.__stderr__)
"""


def test_a_forked_child_closed_output_and_an_own_hook(tmp_path: Path) -> None:
    """A forked child hung: it waited for threads that only its parent has.

    `sys.excepthook` was ignored; output that the script closed cost our answer.
    """
    scripts = {"forks": FORKS, "ends": ENDS_A_WORKER, "takes": TAKES_STREAMS}
    for name, text in scripts.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-c", EACH, *(f"{name}.py" for name in scripts)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.stdout.splitlines() == [f"out/{name}.json.gz" for name in scripts]
    assert [line for line in done.stderr.splitlines() if line.isdigit()] == ["0", "0", "1"]
    assert "hook: half-way" in done.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        f"{name}.{kind}" for name in scripts for kind in ("json.gz", "run.json")
    }


def test_a_script_has_the_garbage_collector_of_a_plain_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A command of ours collects rarely: a recorded loop took another time than a plain one."""
    script = tmp_path / "script.py"
    script.write_text(COLLECTS, encoding="utf-8")
    subprocess.run([sys.executable, str(script)], check=True)
    plain = capfd.readouterr().err.strip()
    assert main(["record", "--no-look", "-o", str(tmp_path / "out"), str(script)]) == 0
    assert plain in capfd.readouterr().err.splitlines()
    assert gc.get_threshold()[0] == 200_000


def test_a_captured_block_that_forks_is_left_by_both(tmp_path: Path) -> None:
    """The same for `capture`."""
    parent = os.getpid()
    with capture(tmp_path / "run", steps=None) as recording:
        child = os.fork()
        torch.ones(4, 4) @ torch.ones(4, 4)
        recording.step()
    if os.getpid() != parent:
        os._exit(7 if recording.trace is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert recording.trace is not None
    assert len(list(tmp_path.iterdir())) == 2


@pytest.fixture
def _no_signal_is_ignored() -> Iterator[None]:
    """As in a shell; these tests may run under `nohup`."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.SIG_DFL) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("_no_signal_is_ignored")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_to_end_keeps_what_was_recorded(tmp_path: Path, record: Record, name: str) -> None:
    """SIGTERM before the window lost everything."""
    before = signal.getsignal(signal.SIGTERM)
    code, trace = _recorded(tmp_path, TOLD_TO_END.replace("SIGNAL", name))
    assert code == 128 + signal.Signals[name]
    assert record(trace)["error"] == f"ended by {name}"
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_while_the_trace_is_written_waits() -> None:
    with EndingSignals() as ending:
        ending.script_runs = False
        os.kill(os.getpid(), signal.SIGTERM)
    assert ending.late is not None
    assert ending.late.code == 143


def test_an_ignored_signal_stays_ignored() -> None:
    """`nohup foretrace record …` must survive a hangup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with EndingSignals():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
