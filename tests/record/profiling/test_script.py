"""`record_script` on scripts that were not written for it."""

from __future__ import annotations

import copy
import gzip
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foretrace as ft
from foretrace.cli import main
from foretrace.trace.cpu_ops import cpu_call

torch = pytest.importorskip("torch")
from foretrace.base.errors import UsageError  # noqa: E402
from foretrace.record.profiling.script import (  # noqa: E402
    RecordedScript,
    ScriptOptions,
    record_script,
)
from foretrace.record.profiling.script_hooks import StepFinder  # noqa: E402

pytestmark = pytest.mark.torch

TRAINING = """
import sys, torch
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(int(sys.argv[1])):
    loss = net(torch.ones(3, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == int(sys.argv[2]):
        raise ValueError("half-way")
"""
GAN = """
import torch
judge, maker = torch.nn.Linear(4, 1), torch.nn.Linear(2, 4)
first, second = (torch.optim.SGD(net.parameters(), lr=0.1) for net in (judge, maker))
for step in range(12):
    with torch.profiler.record_function(f"round {step}"):
        for optimizer in (first, second):
            (judge(maker(torch.ones(3, 2))).mean() + judge(torch.ones(3, 4)).mean()).backward()
            optimizer.step()
"""
IN_PARTS = """
import torch
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
with torch.no_grad():
    net(torch.ones(1, 4))
for _ in range(12):
    for part in range(8):
        net(torch.ones(3, 4)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
INFERENCE = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
with torch.no_grad():
    for _ in range(12):
        net(torch.ones(3, 4))
raise SystemExit(7)
"""
OWN = """
import torch
net = torch.nn.Linear(4, 4)
schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
with torch.profiler.profile(schedule=schedule) as prof:
    for _ in range(8):
        net(torch.ones(3, 4))
        prof.step()
EXPORT
"""
OWN_WHILE_TIMED = """
import contextlib, os, sys, torch
net = torch.nn.Linear(4, 4)
for step in range(int(sys.argv[1])):
    own = step == int(sys.argv[2])
    with torch.profiler.profile() if own else contextlib.nullcontext():
        net(torch.ones(3, 4))
        print("step", step, os.environ.get("TEARDOWN_CUPTI"))
"""
TENSORS = """
import torch
for _ in range(5):
    torch.ones(4, 4) @ torch.ones(4, 4)
"""

Names = Callable[..., list[str]]
Record = Callable[[Path], dict[str, Any]]
Run = Callable[..., RecordedScript]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def of(text: str, *arguments: str, **options: Any) -> RecordedScript:
        script = tmp_path / "script.py"
        script.write_text(text, encoding="utf-8")
        return record_script(
            str(script), arguments, tmp_path / "out" / "script", options=ScriptOptions(**options)
        )

    return of


def test_a_training_loop_has_its_steps_found(run: Run, names: Names, record: Record) -> None:
    done = run(TRAINING, "12", "99")
    (trace,) = done.traces
    assert (done.exit_code, done.steps, done.notes) == (0, 12, [])
    # 3 early steps, 1 timed, 1 waited, 1 warming up; then these, numbered from the window's start
    assert names(trace, "ProfilerStep") == ["ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5"]
    assert len(names(trace, "Optimizer.step")) == 3
    assert record(trace)["script"] == {"steps_seen": 10, "found_by": "auto"}
    assert record(trace)["timing"]["calls_timed"] == 1


def test_a_step_holds_one_whole_iteration(run: Run) -> None:
    (trace,) = run(TRAINING, "12", "99").traces
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    events = [event for event in events if event.get("ph") == "X"]
    for step in [event for event in events if event["name"].startswith("ProfilerStep")]:
        inside = [
            event["name"]
            for event in events
            if step["ts"] <= event["ts"] and event["ts"] + event["dur"] <= step["ts"] + step["dur"]
        ]
        assert inside.count("aten::linear") == 2
        assert sum(name.startswith("Optimizer.step") for name in inside) == 1


def test_a_batch_in_parts_is_one_iteration_from_the_first_on(run: Run, names: Names) -> None:
    """Eight calls before the first optimizer step were eight steps: the window closed over them."""
    done = run(IN_PARTS)
    # a call that does not train is a step of its own, and zero_grad begins one at the end
    assert (done.steps, done.notes) == (14, [])
    assert len(names(done.traces[0], "ProfilerStep")) == 3
    assert len(names(done.traces[0], "aten::linear")) == 3 * 8
    assert len(names(done.traces[0], "Optimizer.step")) == 3


def test_two_optimizers_are_one_iteration(run: Run, names: Names) -> None:
    done = run(GAN)
    assert done.steps == 13  # the first forward, then one per step of the first optimizer
    assert len(names(done.traces[0], "round")) in (2, 3, 4)


def test_a_forward_loop_is_stepped_by_its_outermost_module_and_keeps_its_exit_code(
    run: Run, names: Names
) -> None:
    done = run(INFERENCE)
    assert (done.exit_code, done.steps) == (7, 12)
    assert names(done.traces[0], "aten::linear") == ["aten::linear"] * 6


def test_a_module_that_is_compiled_in_place_is_stepped(run: Run) -> None:
    """Its hooks run inside the compiled code, where they do nothing."""
    in_place = 'net.compile(backend="eager")\nwith torch.no_grad():'
    done = run(INFERENCE.replace("with torch.no_grad():", in_place))
    assert (done.exit_code, done.steps) == (7, 12)


def test_no_step_begins_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    marks: list[str] = []
    module = torch.nn.Linear(2, 2)
    monkeypatch.setattr("foretrace.record.profiling.script_hooks.on_cuda", lambda: True)
    with StepFinder(lambda: marks.append("step")):
        for capturing in (False, True, False):
            monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing)  # noqa: B023
            module(torch.ones(1, 2))
    assert len(marks) == 2


def test_a_copy_of_the_outermost_module_works_and_begins_no_step(tmp_path: Path) -> None:
    marks, net = [], torch.nn.Linear(2, 2)
    with StepFinder(lambda: marks.append("step")):
        net(torch.ones(1, 2))
        torch.save(net, tmp_path / "net.pt")
        copies = [copy.deepcopy(net), torch.load(tmp_path / "net.pt", weights_only=False)]
        for each in (net, *copies):
            assert torch.equal(each(torch.ones(1, 2)), net(torch.ones(1, 2)))
    assert len(marks) == 1 + 4, "the module alone, whose output each is compared with"
    assert b"foretrace" not in (tmp_path / "net.pt").read_bytes()


def test_cupti_is_detached_after_the_trace_and_never_with_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that detaches CUPTI loses its GPU events: an empty one does it after the window."""
    seen: list[tuple[int, str | None]] = []
    original = torch.profiler.profile.stop_trace

    def stop_trace(profiler: Any) -> None:
        seen.append((profiler.step_num, os.environ.get("TEARDOWN_CUPTI")))
        original(profiler)

    monkeypatch.setattr(torch.profiler.profile, "stop_trace", stop_trace)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    for version, empty in (("13.0", [(0, "1")]), ("12.4", []), (None, [])):
        monkeypatch.setattr(torch.version, "cuda", version)
        run(TRAINING, "12", "99", overwrite=True)
        # the first lines, the window, and what detaches
        assert seen == [(0, None), (6, None), *empty]
        seen.clear()
    assert "TEARDOWN_CUPTI" not in os.environ


def _variables(printed: str) -> list[str]:
    return [line.split()[2] for line in printed.splitlines() if line.startswith("step")]


def test_cupti_stays_away_while_steps_are_timed_and_no_longer(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kineto attached it again where the variable was gone before the next launch."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    run(OWN_WHILE_TIMED, "800", "-1")
    said = _variables(capsys.readouterr().out)
    timed = said.count("1")
    assert 30 < timed < 791
    assert said == ["None"] * 9 + ["1"] * timed + ["None"] * (791 - timed)
    run(OWN_WHILE_TIMED, "20", "15", overwrite=True)
    assert _variables(capsys.readouterr().out) == ["None"] * 9 + ["1"] * 6 + ["None"] * 5
    run(OWN_WHILE_TIMED, "12", "-1", overwrite=True)
    assert _variables(capsys.readouterr().out) == ["None"] * 9 + ["1"] * 3
    assert "TEARDOWN_CUPTI" not in os.environ


def test_a_script_that_raises_keeps_its_trace_and_shows_its_own_traceback(
    run: Run, names: Names, record: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(TRAINING, "12", "7")
    (trace,) = done.traces
    assert done.exit_code == 1
    assert names(trace, "ProfilerStep") == ["ProfilerStep#3", "ProfilerStep#4"]
    assert done.notes == ["the script ended inside the window: 2 of 3 steps are recorded"]
    assert record(trace)["error"] == "ValueError: half-way"
    assert record(trace)["note"] == done.notes[0]
    shown = capsys.readouterr().err
    assert "ValueError: half-way" in shown
    assert "foretrace" not in shown.replace(str(trace.parent.parent), "")


def test_an_exit_code_other_than_0_is_an_error(run: Run, record: Record) -> None:
    """A mistyped argument ends by argparse's exit code 2, without an exception that is shown."""
    for code, error in (("2", "SystemExit: 2"), ("'no data'", "SystemExit: no data"), ("0", None)):
        done = run(f"raise SystemExit({code})")
        assert record(done.traces[0])["error"] == error


def test_a_failed_recording_is_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script, out = tmp_path / "script.py", tmp_path / "out"
    script.write_text("import sys\nsys.exit(int(sys.argv[1]))")
    said = []
    for code in "20020":
        main(["record", "--no-look", "-o", str(out), str(script), code])
        said.append(capsys.readouterr().err.splitlines()[-1].replace(str(out), "out"))
    assert said == [
        "next: correct the script and record it again",
        "next: foretrace look out/script_2.json.gz --guess",
        "next: foretrace look out/script_3.json.gz --guess",
        "next: correct the script and record it again",
        "next: foretrace look out/script_5.json.gz --guess",
    ]


def test_the_step_in_which_a_script_fails_is_a_part_of_one(run: Run) -> None:
    """It was "1 step, 23.6 ms per step"."""
    done = run(TRAINING, "9", "1")
    assert done.notes[0].startswith("2 steps were seen")
    assert cpu_call(ft.open(done.traces[0])).name == "ProfilerStep#0"
    done = run(TRAINING, "9", "0")
    assert done.notes[0].startswith("1 step was seen")
    assert ft.look(done.traces[0]).verdict.text.startswith("a part of a step only: ")
    done = run(TRAINING, "1", "9")
    assert "a part of" not in ft.look(done.traces[0]).verdict.text


def test_a_short_script_is_kept_from_its_first_line(run: Run, names: Names) -> None:
    done = run(TRAINING, "2", "99")
    assert names(done.traces[0], "ProfilerStep") == ["ProfilerStep#0", "ProfilerStep#1"]
    assert "2 steps were seen and the window needs 9" in done.notes[0]


def test_a_script_without_modules_is_kept_whole(run: Run, names: Names) -> None:
    done = run(TENSORS)
    assert names(done.traces[0], "aten::mm") == ["aten::mm"] * 5
    assert "no step was found" in done.notes[0]


@pytest.mark.parametrize(
    ("export", "left"),
    [
        ("", None),
        ("prof.export_chrome_trace('mine.json')", "mine.json"),
        ("prof.export_chrome_trace('mine.json.gz')", "mine.json.gz"),
        ("prof.export_chrome_trace('no/folder.json')", None),
    ],
)
def test_a_script_with_its_own_profiler_keeps_it_and_we_keep_its_trace(
    run: Run,
    names: Names,
    record: Record,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    export: str,
    left: str | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(OWN.replace("EXPORT", export))
    assert done.exit_code == 0
    assert names(done.traces[0], "ProfilerStep") == ["ProfilerStep#2", "ProfilerStep#3"]
    assert record(done.traces[0])["own_profiler"] is True
    assert len(done.traces) == 1
    assert ["own profiler" in note for note in done.notes] == [True]
    if left:
        assert names(tmp_path / left, "ProfilerStep") == ["ProfilerStep#2", "ProfilerStep#3"]


def test_stop_ends_the_script_after_its_steps_are_timed(run: Run, record: Record) -> None:
    done = run(TRAINING, "1000000", "-1", stop=True)
    assert done.exit_code == 0
    timing = record(done.traces[0])["timing"]
    assert timing["calls_timed"] < done.steps < 1_000  # it goes on until enough steps are timed
    assert len(timing["block_ns"]) == 10


def test_everything_is_put_back(run: Run) -> None:
    def state() -> tuple[Any, ...]:
        profiler = torch.profiler.profile
        return (
            torch.optim.Optimizer.zero_grad,
            torch.nn.Module.compile,
            profiler.export_chrome_trace,
            profiler.stop_trace,
            sys.argv,
            sys.path[0],
        )

    before = state()
    run(OWN.replace("EXPORT", ""))
    assert state() == before
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_a_module_runs_as_main(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "somebody").mkdir()
    (tmp_path / "somebody" / "tool.py").write_text(
        "import sys\nassert __name__ == '__main__'\nsys.exit(len(sys.argv))"
    )
    monkeypatch.chdir(tmp_path)
    assert record_script("somebody.tool", ["a", "b"], tmp_path / "m", module=True).exit_code == 3


def test_a_missing_script_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such script"):
        record_script(str(tmp_path / "none.py"), [], tmp_path / "out")
    with pytest.raises(UsageError, match="is a folder: give the script in it"):
        record_script(str(tmp_path), [], tmp_path / "out")


@pytest.mark.parametrize(
    "name", ["nosuch", "nosuch.tool", "somebody.nosuch", "somebody", "./script.py"]
)
def test_a_missing_module_is_said_before_anything_is_recorded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "somebody").mkdir()
    (tmp_path / "somebody" / "__init__.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "somebody", raising=False)
    with pytest.raises(UsageError, match=f"no module named {name}: install it"):
        record_script(name, [], tmp_path / "out" / "m", module=True)
    assert not (tmp_path / "out").exists()


def test_an_interrupt_while_the_window_starts_keeps_the_first_recording(
    run: Run, names: Names, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, begun = torch.profiler.profile.prepare_trace, []

    def second_is_interrupted(profiler: Any) -> None:
        begun.append(profiler)
        if len(begun) == 2:
            raise KeyboardInterrupt
        begin(profiler)

    monkeypatch.setattr(torch.profiler.profile, "prepare_trace", second_is_interrupted)
    done = run(TRAINING, "12", "99")
    assert done.exit_code == 130
    assert names(done.traces[0], "ProfilerStep") == [
        "ProfilerStep#0",
        "ProfilerStep#1",
        "ProfilerStep#2",
    ]
    assert record(done.traces[0])["error"].startswith("KeyboardInterrupt")
    assert done.notes[0].startswith("a part of the recording is lost: ")
