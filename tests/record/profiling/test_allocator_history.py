"""`memory=True` keeps the allocator's snapshot. Without a GPU a stand-in takes torch.cuda's place."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from foretrace.cli import main
from foretrace.read.snapshot import read_snapshot
from foretrace.record.profiling import allocator_history, capture
from foretrace.record.profiling.allocator_history import NO_GPU, OWN_KEY, AllocatorHistory
from foretrace.record.profiling.script import RecordedScript, ScriptOptions, record_script

pytestmark = pytest.mark.torch
FRAMES = [{"name": "forward", "filename": "/home/me/train.py", "line": 12}]
OOM = """
import torch
net = torch.nn.Linear(4, 4)
for step in range({steps}):
    net(torch.ones(2, 4))
    if step == {last}:
        run_out = torch.cuda.run_out
        raise {error}
"""


def _event(action: str, addr: int, size: int, time_us: int) -> dict[str, Any]:
    where = {"device_free": 512} if action == "oom" else {"addr": addr}
    return {"action": action, **where, "size": size, "stream": 0, "time_us": time_us} | {
        "frames": FRAMES
    }


class StandIn:
    """What `AllocatorHistory` calls of torch: a history that is on or off, and observers."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.observers: list[Callable[..., None]] = []
        self.events = [_event("alloc", 1 << 20, 4096, 1)]
        self.later: list[Callable[[], None]] = []
        self.ready = True
        self.memory = SimpleNamespace(_record_memory_history=self.record, _snapshot=self.snapshot)

    def record(self, **options: Any) -> None:
        self.calls.append(options)

    def snapshot(self) -> dict[str, Any]:
        block = {"address": 1 << 20, "size": 4096, "state": "active_allocated", "frames": FRAMES}
        segment = {"device": 0, "address": 1 << 20, "total_size": 1 << 21, "stream": 0}
        return {"segments": [segment | {"blocks": [block]}], "device_traces": [list(self.events)]}

    def lazy_call(self, call: Callable[[], None]) -> None:
        if self.ready:
            call()
        else:
            self.later.append(call)

    def run_out(self) -> None:
        self.events.append(_event("oom", 0, 1 << 30, 2))
        for observer in self.observers:
            observer(0, 1 << 30, 1 << 34, 512)

    @property
    def is_on(self) -> bool:
        return bool(self.calls) and self.calls[-1].get("enabled", "all") is not None


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    found = StandIn()
    cuda = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: found.ready,
        memory=found.memory,
        _lazy_call=found.lazy_call,
    )
    core = SimpleNamespace(_cuda_attach_out_of_memory_observer=found.observers.append)
    names = {"nn": torch.nn, "optim": torch.optim, "Tensor": torch.Tensor}
    stand_in = SimpleNamespace(cuda=cuda, _C=core, **names)
    monkeypatch.setattr(allocator_history, "torch", stand_in)
    monkeypatch.setattr(torch.cuda, "run_out", found.run_out, raising=False)
    monkeypatch.setattr(allocator_history, "on_gpu", lambda tensor: True)
    monkeypatch.setattr(
        allocator_history, "card", lambda: {"name": "Card", "memory_bytes": 1 << 34}
    )
    return found


def _block(folder: Path) -> Any:
    return capture(folder / "block", steps=None, memory=True)


def run(folder: Path, text: str, **options: Any) -> RecordedScript:
    script = folder / "script.py"
    script.write_text(text, encoding="utf-8")
    chosen = ScriptOptions(steps=1, warmup=2, memory=True, **options)
    return record_script(str(script), [], folder / "out" / "script", options=chosen)


def test_a_block_keeps_a_snapshot_with_names(
    tmp_path: Path, gpu: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = gc.get_objects()  # models of other tests may be alive; none goes and leaves its number
    known, everything = set(map(id, others)), gc.get_objects
    new = lambda: [each for each in everything() if id(each) not in known]  # noqa: E731
    monkeypatch.setattr(allocator_history.gc, "get_objects", new)
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.Adam(net.parameters())
    with capture(tmp_path / "run", steps=1, warmup=1, memory=True) as window:
        assert gpu.calls == [{"max_entries": allocator_history.MAX_ENTRIES, "stacks": "python"}]
        for _ in range(4):
            net(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            window.step()
    assert not gpu.is_on
    assert gpu.memory._record_memory_history == gpu.record
    found = read_snapshot(str(tmp_path / "run.memory.pickle"))
    assert (found.card, found.card_bytes) == ("Card", 1 << 34)
    named = {(owner.kind, owner.name): owner for owner in found.owners}
    weight = named["parameter", "0.weight"]
    assert weight.addr == net[0].weight.data_ptr()
    kept = pickle.loads((tmp_path / "run.memory.pickle").read_bytes())[OWN_KEY]["owners"]
    assert [row[1:] for row in kept if row[0] == weight.addr] == [
        [48, "parameter", "0.weight", "float32"]
    ]
    assert ("gradient", "0.weight") in named
    assert ("optimizer", "0.weight.exp_avg") in named
    assert ("buffer", "1.running_mean") in named


def test_a_script_keeps_the_recorded_steps(tmp_path: Path, gpu: StandIn) -> None:
    text = OOM.format(steps=30, last=99, error="ValueError")
    done = run(tmp_path, text)
    assert done.memory == tmp_path / "out" / "script.memory.pickle"
    assert (done.oom, done.notes) == (None, [])
    assert pickle.loads(done.memory.read_bytes())[OWN_KEY]["card"] == "Card"
    assert [call.get("enabled", "all") for call in gpu.calls] == ["all", None]
    assert run(tmp_path, text).memory == tmp_path / "out" / "script_2.memory.pickle"


@pytest.mark.parametrize("last", [1, 25], ids=["before the window", "after it"])
def test_a_script_that_runs_out_of_memory(last: int, tmp_path: Path, gpu: StandIn) -> None:
    error = "run_out() or torch.OutOfMemoryError('CUDA out of memory.')"
    done = run(tmp_path, OOM.format(steps=30, last=last, error=error))
    assert done.exit_code == 1
    assert done.oom == tmp_path / "out" / "script.oom.pickle"
    assert done.memory is not None
    assert done.memory.exists()
    last_event = pickle.loads(done.oom.read_bytes())["device_traces"][0][-1]
    assert (last_event["action"], last_event["size"]) == ("oom", 1 << 30)
    assert not gpu.is_on


def test_memory_that_ran_out_and_was_caught_is_no_failure(tmp_path: Path, gpu: StandIn) -> None:
    done = run(tmp_path, OOM.format(steps=30, last=4, error="run_out() or ValueError('other')"))
    assert done.oom is None
    assert done.memory is not None
    assert not (tmp_path / "out" / "script.oom.pickle").exists()


def test_the_command_says_what_wanted_memory(
    tmp_path: Path, gpu: StandIn, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    error = "run_out() or torch.OutOfMemoryError('CUDA out of memory.')"
    script.write_text(OOM.format(steps=30, last=1, error=error), encoding="utf-8")
    given = ["record", "--memory", "--no-look", "-o", str(tmp_path / "out"), str(script)]
    assert main(given) == 1
    *said, trace, snapshot, line, then = capfd.readouterr().err.splitlines()
    kept = tmp_path / "out" / "script.oom.pickle"
    assert (trace, snapshot) == (f"wrote {kept.with_name('script.json.gz')}", f"wrote {kept}")
    assert line.startswith("out of memory: train.py:12 in forward wanted 1.07 GB; ")
    assert "; 4.10 kB were in use: " in line
    assert then == f"next: foretrace memory {kept}; correct the script and record it again"
    assert any("OutOfMemoryError: CUDA out of memory." in each for each in said)


def test_cuda_that_starts_later_is_recorded_from_then_on(tmp_path: Path, gpu: StandIn) -> None:
    gpu.ready = False
    history = AllocatorHistory(wanted=True)
    history.start()
    assert gpu.calls == []
    assert history.keep(tmp_path / "run.json.gz") is None
    assert "did not use the GPU" in history.notes[0]
    history.finish()
    gpu.later[0]()  # after the end: nothing is switched on
    assert gpu.calls == []


def test_a_history_of_the_program_stays_on(tmp_path: Path, gpu: StandIn) -> None:
    history = AllocatorHistory(wanted=True)
    history.start()
    gpu.memory._record_memory_history(enabled="all", max_entries=7)
    assert history.keep(tmp_path / "run.json.gz") == tmp_path / "run.memory.pickle"
    history.finish()
    assert gpu.calls[-1] == {"enabled": "all", "max_entries": 7}


def test_a_large_snapshot_loses_its_older_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocator_history, "MAX_BYTES", 2_000)
    events = [_event("alloc", at, 512, at) for at in range(1, 400)]
    content = allocator_history.packed({"segments": [], "device_traces": [events, []]})
    kept = pickle.loads(content)["device_traces"]
    assert len(content) <= 2_000
    assert kept[0] == events[-len(kept[0]) :]


def test_a_snapshot_that_fails_costs_no_trace(tmp_path: Path, gpu: StandIn) -> None:
    def fails() -> dict[str, Any]:
        raise RuntimeError("no driver")

    gpu.memory._snapshot = fails
    done = run(tmp_path, OOM.format(steps=30, last=99, error="ValueError"))
    assert done.traces
    assert done.memory is None
    assert done.notes == ["no snapshot of the allocator: RuntimeError: no driver"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_without_a_gpu_one_line_says_so(tmp_path: Path) -> None:
    done = run(tmp_path, OOM.format(steps=12, last=99, error="ValueError"))
    assert done.notes == [NO_GPU]
    with pytest.warns(UserWarning, match="needs a GPU"), _block(tmp_path):
        torch.ones(4).add(1)
