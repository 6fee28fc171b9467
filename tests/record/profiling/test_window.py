"""`capture`, `capture_call` and `handler`: what is recorded, what is written, and what is said when
nothing is.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from foretrace.base.errors import UsageError  # noqa: E402
from foretrace.record.profiling import capture, handler, run_record  # noqa: E402
from foretrace.record.profiling.window import capture_call  # noqa: E402

pytestmark = pytest.mark.torch

Names = Callable[..., list[str]]
Record = Callable[[Path], dict[str, Any]]


def work() -> object:
    return torch.ones(4, 4) @ torch.ones(4, 4)


def test_the_schedule_records_exactly_the_steps_asked_for(
    tmp_path: Path, names: Names, record: Record
) -> None:
    with capture(tmp_path / "run", steps=3, warmup=2, region="work") as prof:
        for _ in range(7):
            work()
            prof.step()
    assert prof.trace == tmp_path / "run.json.gz"
    assert names(prof.trace, "ProfilerStep") == [
        "ProfilerStep#4",
        "ProfilerStep#5",
        "ProfilerStep#6",
    ]
    assert names(prof.trace, "work") == ["work"] * 3
    assert names(prof.trace, "aten::mm") == ["aten::mm"] * 3
    said = record(prof.trace)
    assert said["kind"] == "foretrace-run"
    assert said["profile"] == {
        "steps": 3,
        "wait": 1,
        "warmup": 2,
        "shapes": True,
        "stacks": False,
        "memory": False,
        "modules": False,
    }
    assert said["timing"]["calls_timed"] == 2
    assert all(
        said["timing"][key] > 0
        for key in (
            "first_call_ns",
            "wall_ns_per_call",
            "host_ns_per_call",
            "profiled_host_ns_per_call",
        )
    )
    assert said["compile"]["frames"] == 0
    assert said["error"] is None
    assert said["note"] is None


def test_too_few_steps_are_an_error_that_counts_them(tmp_path: Path) -> None:
    prof = capture(tmp_path / "run")
    prof.start()
    prof.step()
    prof.step()
    with pytest.raises(UsageError, match="called 2 times, and recording starts with step 6 of 8"):
        prof.__exit__(None, None, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("whole", [1, 2])
def test_a_block_that_ends_early_counts_its_whole_steps(
    tmp_path: Path, record: Record, whole: int
) -> None:
    said = (
        f"{whole} of 3 steps were recorded: the block ended early; warmup+wait+1+steps = 8 "
        "steps are needed"
    )
    prof = capture(tmp_path / "run")
    prof.start()
    for _ in range(5 + whole):
        work()
        prof.step()
    with pytest.warns(UserWarning, match="ended early") as warned:
        prof.__exit__(None, None, None)
    assert [(str(each.message), each.filename) for each in warned] == [(said, __file__)]
    assert record(prof.trace)["note"] == said


def test_an_exception_keeps_what_was_recorded(tmp_path: Path, names: Names, record: Record) -> None:
    def train(prof: Any) -> None:
        with prof:
            for step in range(5):
                work()
                prof.step() if step < 3 else int("half-way")

    prof = capture(tmp_path / "run", warmup=0, steps=3)
    with pytest.raises(ValueError, match="half-way"):
        train(prof)
    assert names(prof.trace, "ProfilerStep") == ["ProfilerStep#2", "ProfilerStep#3"]
    assert record(prof.trace)["error"].startswith("ValueError: invalid literal")
    assert record(prof.trace)["note"].startswith("1 of 3 steps were recorded")


def test_a_second_profiler_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with torch.profiler.profile() as first:
        with pytest.raises(UsageError, match="already running"), capture(tmp_path / "run"):
            pass
        with pytest.raises(UsageError, match="already running"):
            capture_call(work, tmp_path / "run", region="work")
        work()
    assert any(event.name == "aten::mm" for event in first.events())


def test_one_callable_is_timed_first_and_recorded_in_steps_2_to_4(
    tmp_path: Path, names: Names, record: Record
) -> None:
    calls = []
    done = capture_call(
        lambda: calls.append(work()),
        tmp_path / "call",
        region="work",
        facts={"a": 1},
    )
    assert names(done.trace, "ProfilerStep") == [
        "ProfilerStep#2",
        "ProfilerStep#3",
        "ProfilerStep#4",
    ]
    said = record(done.trace)
    assert said["a"] == 1
    assert said["profile"]["warmup"] == 3
    # three warm calls, one to choose the batch, the timed ones, and five under the profiler
    assert len(calls) == 3 + 1 + said["timing"]["calls_timed"] + 5


def test_a_handler_numbers_every_window_of_a_foreign_schedule(
    tmp_path: Path, names: Names, record: Record
) -> None:
    schedule = torch.profiler.schedule(wait=0, warmup=0, active=1, repeat=2)
    ready = handler(tmp_path / "deep" / "er", name="w")
    with torch.profiler.profile(
        schedule=schedule, on_trace_ready=ready, profile_memory=True
    ) as prof:
        for _ in range(2):
            work()
            prof.step()
    first, second = tmp_path / "deep/er/w.json.gz", tmp_path / "deep/er/w_2.json.gz"
    assert [names(path, "ProfilerStep") for path in (first, second)] == [
        ["ProfilerStep#0"],
        ["ProfilerStep#1"],
    ]
    assert record(second)["profile"] == {
        "shapes": False,
        "stacks": False,
        "memory": True,
        "modules": False,
    }


@pytest.mark.parametrize(("steps", "blocks"), [(40, 38), (12, 10), (11, 0)])
def test_steps_of_a_short_script_count_one_by_one(
    steps: int, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 4 ms each, 40 make no three blocks of 50 ms; ten of them still have a spread."""
    now = 0

    def clock() -> int:
        return now

    monkeypatch.setattr(run_record, "perf_counter_ns", clock)
    monkeypatch.setattr(run_record, "on_accelerator", lambda: False)
    times = run_record.StepTimes(run_record.CallTimes())
    for number in range(steps):
        now += 4_000_000 + number
        times.step()
    assert times.keep() == bool(blocks)
    assert times.timing.block_ns == [4_000_000 + number for number in range(2, 2 + blocks)]
    assert times.timing.calls_timed == blocks


class Gpu:
    """A GPU that works 5 ms a step, behind a host that needs 4 ms to launch it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.free = self.waits = 0
        monkeypatch.setattr(run_record, "perf_counter_ns", lambda: self.now)
        monkeypatch.setattr(run_record, "synchronize", lambda: self.wait(self.free))
        monkeypatch.setattr(run_record, "on_cuda", lambda: True)
        for name, fake in {
            "Event": lambda enable_timing: GpuEvent(self),
            "current_device": lambda: 1,
            "current_stream": lambda device: f"stream of {device}",
        }.items():
            monkeypatch.setattr(torch.cuda, name, fake)

    def step(self) -> None:
        self.now += 4_000_000
        self.free = max(self.now, self.free) + 5_000_000

    def wait(self, until: int) -> None:
        self.now, self.waits = max(self.now, until), self.waits + 1


class GpuEvent:
    """It is over when the work before it is."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.at = gpu, 0

    def record(self, stream: str) -> None:
        assert stream == "stream of 1"
        self.at = max(self.gpu.now, self.gpu.free)

    def synchronize(self) -> None:
        self.gpu.wait(self.at)

    def elapsed_time(self, later: GpuEvent) -> float:
        assert later.at <= self.gpu.now, "it is not over"
        return (later.at - self.at) / 1e6


@pytest.mark.parametrize(("steps", "blocks"), [(150, 10), (60, 3), (58, 0)])
def test_no_timed_step_waits_for_the_gpu(
    steps: int, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting between blocks of ten steps adds the host's 4 ms to each: 5.4 ms a step."""
    gpu = Gpu(monkeypatch)
    times = run_record.StepTimes(run_record.CallTimes())
    for _ in range(steps):
        gpu.step()
        if times.step():
            break
    assert times.is_over == (blocks == 10)
    assert times.keep() == bool(blocks)
    assert times.timing.block_ns == [5_000_000] * blocks
    assert times.timing.calls_timed == 10 * blocks
    assert times.timing.host_ns_per_call == (4_000_000 if blocks else None)
    assert gpu.waits == 2 * 4 + 1, "for the length of a block, and for the last event"
