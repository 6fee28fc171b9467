"""`--limit seconds` and `--limit memory`: one line, exit 3, nothing left behind, others are read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from corpus.build import gn
from corpus.opening import run
from foretrace.base import budget
from foretrace.base.errors import LimitError
from foretrace.look import reading
from foretrace.read import cache, recordings

MLP = str(recordings.traces()["mlp_eager"])


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FORETRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "WORTHWHILE_BYTES", 0)
    return tmp_path / "cache"


COMMANDS = {
    "look": ["look", MLP],
    "compare": ["compare", MLP, MLP],
    "check": ["check", MLP, "total.kernels < 5"],
    "report": ["report", MLP, "-o", "OUT/r.html"],
    "share": ["export", MLP, "--to", "shared", "-o", "OUT"],
    "perfetto": [
        "export",
        MLP,
        "--to",
        "perfetto",
        "--annotated",
        "-o",
        "OUT/p.json",
        "--no-browser",
    ],
    "strict serve": ["serve", MLP, "--strict", "--no-browser"],
}


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize(("name", "code"), [("seconds", "SLOW"), ("memory", "MUCH_MEMORY")])
def test_every_command(
    name: str,
    code: str,
    arguments: list[str],
    tmp_path: Path,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, used = iter(range(10**9)), iter(range(0, 10**15, 1 << 20))
    if name == "seconds":
        monkeypatch.setattr(budget, "clock", lambda: float(next(clock)))
    else:
        monkeypatch.setattr(budget, "held_memory", lambda: next(used))
    (tmp_path / "out").mkdir()
    given = [each.replace("OUT", str(tmp_path / "out")) for each in arguments]
    ran = run(*given, "--limit", f"{name}=1")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.count("\n") == 1
    assert f"[E_TOO_{code}]; raise it with --limit {name}=NUMBER" in ran.err
    assert MLP in ran.err
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert not [path for path in store.rglob("*") if path.name.startswith(".")]


def test_the_memory_of_a_process() -> None:
    """What the system says about a process of its own."""
    command = [sys.executable, "-m", "foretrace", "look", MLP, "--no-cache", "--limit", "memory=1"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (3, "", 1)
    assert "E_TOO_MUCH_MEMORY" in ran.stderr


def test_a_hostile_file_costs_its_own_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four of five traces are answered; the fifth never comes to an end."""
    folder = tmp_path / "set"
    folder.mkdir()
    for name in "abcd":
        (folder / f"{name}.json").write_bytes(gn(3).bytes())
    (folder / "hostile.json").write_bytes(gn(3).bytes())
    check = budget.Budget.check

    def slow(self: budget.Budget) -> None:
        if self.label.endswith("hostile.json") and self.read > 100:
            raise LimitError("E_TOO_SLOW", self.label, "takes longer than 30 s", hint="wait")
        check(self)

    monkeypatch.setattr(reading, "WORTHWHILE", 1 << 40)
    monkeypatch.setattr(budget.Budget, "check", slow)
    # its first bytes look like those of any trace
    monkeypatch.setattr("foretrace.read.door.refusal", lambda *_: None)
    ran = run("look", str(folder), "--json", "--no-cache")
    answer = json.loads(ran.out)
    assert ran.code == 0
    assert len(answer["traces"]) == 4
    (left,) = answer["left_out"]
    assert (os.path.basename(left["path"]), left["code"]) == ("hostile.json", "E_TOO_SLOW")
    assert run("look", str(folder), "--strict", "--no-cache").code == 1


IN_PROCESSES = """
import sys
from foretrace.cli import main
from foretrace.look import reading
from foretrace.read.kineto import parallel
reading.WORTHWHILE, parallel.cores = 0, lambda: 2
if __name__ == "__main__":
    sys.exit(main(["look", sys.argv[1], "--json", "--no-cache"]))
"""
# every process of Python begins with it; those that another one started die of one file
DYING = """
import os, sys
def dies(event, args):
    started = sys.modules.get("multiprocessing.process")
    if event == "open" and str(args[0]).endswith("hostile.json") and started:
        if started.parent_process() is not None:
            os.abort()
sys.addaudithook(dies)
"""


def test_a_process_that_dies_costs_its_own_line(tmp_path: Path) -> None:
    """Polars aborts when it gets no memory; so does the process that reads this trace by itself."""
    folder, script = tmp_path / "set", tmp_path / "dying.py"
    folder.mkdir()
    for name in ("a", "hostile", "z"):
        (folder / f"{name}.json").write_bytes(gn(3).bytes())
    script.write_text(IN_PROCESSES)
    (tmp_path / "sitecustomize.py").write_text(DYING)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    command, env = [sys.executable, str(script), str(folder)], {**os.environ, "PYTHONPATH": path}
    ran = subprocess.run(command, capture_output=True, text=True, env=env)
    assert ran.returncode == 0, ran.stderr[-2000:]
    answer = json.loads(ran.stdout)
    assert [os.path.basename(each["trace"]["path"]) for each in answer["traces"]] == [
        "a.json",
        "z.json",
    ]
    assert [left["code"] for left in answer["left_out"]] == ["E_UNREADABLE"]
