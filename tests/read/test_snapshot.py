"""Snapshots of the allocator: the streaming reader gives what unpickling the whole file gives."""

from __future__ import annotations

import gzip
import importlib.util
import io
import lzma
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from foretrace.base.budget import Limits
from foretrace.base.errors import LimitError, TraceError
from foretrace.read import event_layouts, snapshot_machine
from foretrace.read.snapshot import from_tree, read_snapshot
from foretrace.schema.snapshot import Snapshot
from read.snapshots import RECORDED, pickled, recorded, resolved, small_tree

PROTOCOLS = [(protocol, False) for protocol in range(6)] + [(2, True), (4, True)]


def read(raw: bytes, folder: Path, **limits: int) -> Snapshot:
    path = folder / "snapshot.pickle"
    path.write_bytes(raw)
    return read_snapshot(str(path), Limits(**limits))


@pytest.mark.parametrize("name", ["train", "inference", "oom"])
def test_recorded_snapshots_are_read_as_unpickled(name: str) -> None:
    want = from_tree(name, pickle.loads(recorded(name)))
    assert resolved(read_snapshot(str(RECORDED / f"{name}.pickle.xz"))) == resolved(want)


@pytest.mark.parametrize(("protocol", "fast"), PROTOCOLS)
def test_every_protocol_gives_the_same_tables(protocol: int, fast: bool, tmp_path: Path) -> None:
    tree = small_tree()
    got = read(pickled(tree, protocol, fast=fast), tmp_path)
    assert resolved(got) == resolved(from_tree("tree", tree))


@pytest.mark.parametrize("protocol", [1, 2, 4, 5])
def test_events_that_differ_in_shape(protocol: int, tmp_path: Path) -> None:
    """Several devices, keys that some events lack, numbers of every width, texts of their own."""
    tree = small_tree(300)
    events = tree["device_traces"][0]
    for number, event in enumerate(events):
        event["size"] = 1 << (number % 62)
        if number % 5 == 0:
            event["user_metadata"] = f"step {number // 100}"
        if number % 7 == 0:
            event["device_free"] = None if number % 2 else 0.5
        if number % 11 == 0:
            del event["frames"]
        if number % 13 == 0:
            event["frames"] = event.get("frames", [])[:1]
    events[40]["addr"], events[41]["time_us"], events[42]["size"] = -1, 1 << 70, "large"
    events[50]["frames"] = events[50]["frames"] * 60
    tree["device_traces"] = [[dict(each) for each in events[:10]], [], events, [None, 3, {}]]
    got, want = read(pickled(tree, protocol), tmp_path), from_tree("tree", tree)
    assert resolved(got) == resolved(want)
    assert got.lost == {
        "events with a number that cannot be one": 3,
        "events that are no records": 2,
    }


def test_most_events_never_become_dicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[Any] = []
    add = event_layouts.DeviceEvents.add
    monkeypatch.setattr(
        event_layouts.DeviceEvents,
        "add",
        lambda self, *given: added.append(1) or add(self, *given),
    )
    tree = small_tree(6000)
    for protocol in (2, 4):
        added.clear()
        assert len(read(pickled(tree, protocol), tmp_path).histories[0]) == 6000
        assert len(added) < 300


def test_packed_snapshots_and_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = pickled(small_tree(50), 4)
    want = resolved(read(raw, tmp_path))
    for packed in (gzip.compress(raw), lzma.compress(raw)):
        assert resolved(read(packed, tmp_path)) == want
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    assert resolved(read_snapshot("-")) == want


def test_a_small_window_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = small_tree()
    monkeypatch.setattr("foretrace.read.pickles.FIRST_WINDOW", 1000)
    monkeypatch.setattr("foretrace.read.pickles.WINDOW", 3000)
    monkeypatch.setattr(snapshot_machine, "AHEAD", 900)
    monkeypatch.setattr("foretrace.read.unpack.BLOCK", 700)
    for protocol in (0, 2, 4):
        got = read(pickled(tree, protocol), tmp_path)
        assert resolved(got) == resolved(from_tree("tree", tree))


_APART = """
import sys
from foretrace.read import pickles, snapshot_ahead, snapshot_machine
from foretrace.read.snapshot import read_snapshot
pickles.WINDOW = snapshot_ahead.WINDOW = 20_000
snapshot_machine.SETTLED, snapshot_machine.WORTHWHILE = 30_000, 0
snapshot_machine.cores = lambda: 2
ended = snapshot_ahead.ReadAhead.end
snapshot_ahead.ReadAhead.end = lambda self: (print("ended"), ended(self))
history = read_snapshot(sys.argv[1]).histories[0]
print(len(history), history.size.sum(), history.time_us.sum(), history.stack.sum())
"""


def test_a_process_that_reads_ahead_changes_nothing(tmp_path: Path) -> None:
    want = read(pickled(small_tree(3000), 4), tmp_path).histories[0]
    done = subprocess.run(
        [sys.executable, "-c", _APART, tmp_path / "snapshot.pickle"],
        capture_output=True,
        text=True,
        check=True,
    )
    numbers = (len(want), want.size.sum(), want.time_us.sum(), want.stack.sum())
    assert done.stdout.split()[-4:] == [str(number) for number in numbers]
    assert "ended" in done.stdout


def test_what_is_no_snapshot_is_refused_in_one_line(tmp_path: Path) -> None:
    for raw in (b"", b"hello", pickled([1, 2], 4), pickled({"segments": 3}, 2), b"\x80\x04"):
        with pytest.raises(TraceError, match="not an allocator snapshot") as found:
            read(raw, tmp_path)
        assert "\n" not in str(found.value)


def test_a_snapshot_that_is_cut_keeps_what_came_before(tmp_path: Path) -> None:
    tree = small_tree()
    raw = pickled(tree, 4)
    whole = resolved(from_tree("tree", tree))
    half = read(raw[: len(raw) * 3 // 4], tmp_path)
    assert half.lost.pop("bytes after damage", 0) < 5  # of the last opcode
    assert half.lost == {"records cut off by damage": 1, "times that the pickle ends early": 1}
    got, events = resolved(half)["histories"][0], len(half.histories[0])
    assert 100 < events < 400
    assert got[2] == whole["histories"][0][2][:events]
    assert resolved(half)["segments"] == whole["segments"]


def test_limits_stop_the_reading(tmp_path: Path) -> None:
    raw = pickled(small_tree(), 4)
    with pytest.raises(LimitError, match="more than 100 events"):
        read(raw, tmp_path, events=100)
    with pytest.raises(LimitError, match="E_TOO_BIG"):
        read(raw, tmp_path, bytes=1000)


def _benchmark() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "snapshot.py"
    spec = importlib.util.spec_from_file_location("snapshot_benchmark", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("protocol", [2, 4])
def test_the_generator_writes_what_its_truth_says(protocol: int, tmp_path: Path) -> None:
    benchmark = _benchmark()
    benchmark.ACTIVATIONS = 700
    path = tmp_path / "made.pickle"
    truth = benchmark.make(path, 400_000, protocol)
    got = read_snapshot(str(path))
    assert resolved(got) == resolved(from_tree("tree", pickle.loads(path.read_bytes())))
    frames = [f"{frame.file}:{frame.line}" for frame in got.frames]
    found = benchmark.peak_lines(got.histories[0], frames, got.stacks)
    assert found | {"events": len(got.histories[0])} == truth
