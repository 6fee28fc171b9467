"""A script under both profilers: which step is counted, and what comes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from counter_files import export_text, row
from foretrace.base.errors import MissingError, UsageError, UserCodeError
from foretrace.model import opening
from foretrace.read import recordings

torch = pytest.importorskip("torch")
from foretrace.cli import main  # noqa: E402
from foretrace.record.experiments import counting  # noqa: E402
from foretrace.record.experiments.counting import CountedScript, count_script, need_nvidia  # noqa: E402
from foretrace.record.profiling import counted, ncu  # noqa: E402

pytestmark = pytest.mark.torch

LOOP = """
import sys, torch
net = torch.nn.Linear(4, 4)
for step in range(int(sys.argv[1])):
    print("step", step)
    net(torch.ones(3, 4))
print("the end")
"""


@pytest.fixture
def loop(tmp_path: Path) -> str:
    script = tmp_path / "loop.py"
    script.write_text(LOOP)
    return str(script)


@pytest.fixture
def switched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What turns the counters on and off, in order."""
    found: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda.profiler, "start", lambda: found.append("on"))
    monkeypatch.setattr(torch.cuda.profiler, "stop", lambda: found.append("off"))
    return found


def test_one_step_is_counted_and_the_script_ends_after_it(
    loop: str, switched: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert counted.main("2", "auto", "script", loop, "9") == 0
    assert switched == ["on", "off"]
    assert capfd.readouterr().out.splitlines() == ["step 0", "step 1", "step 2", "step 3"]


def test_the_last_step_ends_with_the_script(
    loop: str, switched: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert counted.main("2", "auto", "script", loop, "3") == 0
    assert switched == ["on", "off"]
    assert capfd.readouterr().out.splitlines()[-1] == "the end"


def test_a_script_that_ends_too_early_says_so(loop: str, switched: list[str]) -> None:
    assert counted.main("5", "auto", "script", loop, "3") == ncu.EXIT_NO_STEP
    assert switched == []


def test_everything_needs_no_switch(loop: str, switched: list[str]) -> None:
    assert counted.main(str(counted.EVERYTHING), "auto", "script", loop, "3") == 0
    assert switched == []


def test_the_exit_code_is_that_of_the_script(
    tmp_path: Path, switched: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "broken.py"
    script.write_text("raise ValueError('half-way')")
    assert counted.main("0", "auto", "script", str(script)) == 1
    assert "ValueError: half-way" in capfd.readouterr().err


def _fake_ncu(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Path:
    (folder / "log").write_text(text)
    program = folder / "ncu"
    program.write_text(
        f"#!{sys.executable}\nimport sys\n"
        f"open({str(folder / 'words')!r}, 'a').write(' '.join(sys.argv[1:]) + chr(10))\n"
        f"text = open({str(folder / 'log')!r}).read()\n"
        "open(sys.argv[sys.argv.index('--log-file') + 1], 'w').write(text)\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setattr(counting, "need_nvidia", lambda: None)
    monkeypatch.chdir(folder)
    (folder / "train.py").touch()
    return folder / "words"


def _export_of(trace: Path, count: int) -> str:
    kernels = opening.open(trace, cache=False).kernels.sort("launch")
    last = kernels.filter(kernels["step"] == kernels["step"].max())
    rows = [
        row(one["name"], 10, 20, one["dur_ns"], 1, number=at, grid=one["grid"], block=one["block"])
        for at, one in enumerate(last.head(count).iter_rows(named=True))
    ]
    return export_text(rows)


def test_trace_and_exports_are_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shipped = recordings.find("mlp_eager")
    assert shipped is not None
    trace = tmp_path / "run.json.gz"
    trace.write_bytes(Path(shipped).read_bytes())
    record = {"kind": "foretrace-run", "profile": {"steps": 3}}
    (tmp_path / "run.run.json").write_text(json.dumps(record))
    words = _fake_ncu(tmp_path, monkeypatch, _export_of(trace, 5))
    monkeypatch.setattr(counting, "_record", lambda wanted, folder: trace)
    assert main(["counters", "--json", "-o", str(tmp_path), "train.py", "--fast"]) == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert [(run["launches"], run["joined"]) for run in document["runs"]] == [(5, 5), (5, 5)]
    assert document["total"]["bytes"]["hbm_read"] == 50
    assert (tmp_path / "run.ncu1.csv").is_file()
    first, second = words.read_text().splitlines()
    # three steps of warm-up, then that of the recording
    step = opening.open(trace, cache=False).steps["number"][-1] + 3
    assert first.endswith(f"foretrace.record.profiling.counted {step} auto script train.py --fast")
    assert "dram__bytes_read.sum" in first
    assert "lts__t_sectors_srcunit_tex.sum" in second


def test_record_counts_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")  # the command is one line
    trace = tmp_path / "run.json.gz"
    trace.write_bytes(Path(str(recordings.find("mlp_eager"))).read_bytes())
    _fake_ncu(tmp_path, monkeypatch, _export_of(trace, 5))
    asked: list[CountedScript] = []

    def record(wanted: CountedScript, _: Path) -> Path:
        asked.append(wanted)
        return trace

    monkeypatch.setattr(counting, "_record", record)
    words = ["record", "--counters", "--steps", "5", "--no-shapes", "--limit", "7", "--stacks"]
    assert main([*words, "train.py", "--steps", "9"]) == 0
    (wanted,) = asked
    assert (wanted.steps, wanted.arguments) == (5, ("--steps", "9"))
    assert wanted.recording == ("--no-shapes", "--stacks", "--limit", "7")
    out = capsys.readouterr().out
    assert out.index("GPU-BOUND") < out.index("5 of 5 launches joined")
    again = out.replace("\n", " ").partition("more: foretrace ")[2].split()
    assert main(again) == 0
    assert "5 of 5 launches joined" in capsys.readouterr().out
    assert main([*words, "--json", "train.py"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["joined"] == 5
    assert main([*words, "--no-look", "train.py"]) == 0
    assert capsys.readouterr().out.split() == [str(trace)]


def test_record_without_ncu_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('ran')")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(ncu, "_PLACES", ())
    assert main(["record", "--counters", str(script)]) == 4
    said = capsys.readouterr()
    assert said.out == ""
    assert "`ncu` is not in PATH" in said.err
    assert len(said.err.splitlines()) == 1


def test_quick_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = Path(str(recordings.find("mlp_eager")))
    words = _fake_ncu(tmp_path, monkeypatch, _export_of(shipped, 2))
    trace = tmp_path / "run.json.gz"
    trace.write_bytes(shipped.read_bytes())
    monkeypatch.setattr(counting, "_record", lambda wanted, folder: trace)
    wanted = CountedScript("train.py", (), limit=2, quick=True, whole=True)
    _, (found,) = count_script(wanted, tmp_path, lambda text: None)
    assert len(found.export.launches) == 2
    assert "--profile-from-start" not in words.read_text()


def test_a_script_that_fails_under_the_profiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_ncu(tmp_path, monkeypatch, "")
    answer = {"exit_code": 5, "traces": []}
    ended = subprocess.CompletedProcess([], 5, json.dumps(answer).encode())
    monkeypatch.setattr(subprocess, "run", lambda *words, **how: ended)
    with pytest.raises(UserCodeError, match="exit code 5 under torch"):
        count_script(CountedScript("train.py", ()), tmp_path, lambda text: None)


def test_no_such_script(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no such script: x\.py"):
        count_script(CountedScript("x.py", ()), tmp_path, lambda text: None)


def test_without_an_nvidia_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(MissingError, match="NVIDIA GPU"):
        need_nvidia()
    monkeypatch.setattr(torch.version, "hip", "6.2")
    with pytest.raises(MissingError, match="AMD"):
        need_nvidia()
