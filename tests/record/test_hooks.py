"""Callbacks: which steps are recorded, what is said, and that no error reaches the training."""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from foretrace.hooks import StepRecording, watch  # noqa: E402

pytestmark = pytest.mark.torch


def step() -> None:
    (torch.ones(8, 8) @ torch.ones(8, 8)).sum().item()


def test_steps_that_compile_are_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from torch._dynamo.utils import counters

    frames: Counter[str] = Counter()
    monkeypatch.setitem(counters, "frames", frames)
    recording = StepRecording(tmp_path / "t", show=False)
    for number in range(30):
        with torch.profiler.record_function(f"compiles_{number}" if number < 7 else "plain"):
            frames["total"] += number < 7
            step()
        recording.step()
    recording.finish()
    recording.finish()
    said = capsys.readouterr().err
    assert said.count("foretrace: ") == 1
    assert f"3 steps in {tmp_path / 't.json.gz'}" in said
    import foretrace

    trace = foretrace.open(tmp_path / "t.json.gz", cache=False)
    assert len(trace.steps) == 3
    names = set(trace.regions["name"])
    assert "plain" in names
    assert not any(name.startswith("compiles") for name in names)
    assert json.loads((tmp_path / "t.run.json").read_text())["timing"]["calls_timed"] > 0


def test_a_short_training_is_told_what_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = StepRecording(tmp_path / "t")
    for _ in range(2):
        recording.step()
    recording.finish()
    assert "nothing was recorded: 2 steps ended, and 9 are needed" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_recording_that_fails_leaves_no_profiler_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = StepRecording(tmp_path / "t", show=False)

    def fails(_: object) -> None:
        raise OSError("no space left")

    for number in range(9):
        if number == 7:
            assert torch.autograd.profiler._is_profiler_enabled
            monkeypatch.setattr("foretrace.record.profiling.window.Capture.step", fails)
        recording.step()
    recording.finish()
    assert not torch.autograd.profiler._is_profiler_enabled
    assert "OSError: no space left" in capsys.readouterr().err


def test_no_error_reaches_the_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with torch.profiler.profile():  # a second profiler cannot start
        recording = StepRecording(tmp_path / "t")
        for _ in range(20):
            recording.step()
        recording.finish()
    said = capsys.readouterr().err.splitlines()  # torch logs its own profilers there
    (line,) = [line for line in said if line.startswith("foretrace: ")]
    assert "profiler" in line


def test_epochs_of_a_watched_loader_are_one_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loader: Any = torch.utils.data.DataLoader(range(8))
    seen = 0
    for _ in range(6):
        watched = watch(loader, tmp_path / "t", show=False)
        assert (len(watched), copy.copy(watched).dataset) == (8, range(8))
        for _batch in watched:
            step()
            seen += 1
    assert seen == 48
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.json.gz", "t.run.json"]
    watched.recording.finish()  # as at the end of the process
    assert capsys.readouterr().err.count(" steps in ") == 1
