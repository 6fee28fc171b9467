"""What a region runs: launch order, medians over calls, folding, and what is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

import foretrace as ft
from corpus.builder import TraceBuilder
from foretrace.read import recordings
from foretrace.show.overview import sequences as module
from foretrace.show.overview.page import LaunchSequence
from foretrace.show.overview.sequences import sequences
from opened_traces import opened


def of(builder: TraceBuilder, folder: Path) -> list[LaunchSequence]:
    path = folder / "trace.json"
    path.write_bytes(builder.bytes())
    return sequences(ft.open(path, cache=False))


def calls(durations: list[int], names: str = "a") -> TraceBuilder:
    """A region called once per duration; each call launches one kernel per letter."""
    builder = TraceBuilder()
    for number, length in enumerate(durations):
        at = number * 1_000_000
        builder.region("part", at, 500_000).op("aten::add", at + 100, 400_000)
        for place, name in enumerate(names):
            builder.launch(at + 1_000 + place * 2_000, 500)
            builder.kernel(name, at + 5_000 + place * 20_000, length)
    return builder


def test_the_mlp_in_launch_order() -> None:
    (found,) = sequences(opened(recordings.traces()["mlp_eager"]))
    assert (found.region, found.calls, found.same, found.operations) == ("mlp_fwd", 3, 3, 7)
    assert [(row.role, row.chain[-2:]) for row in found.rows] == [
        ("copy", ["aten::mm", "cudaMemsetAsync"]),
        ("gemm", ["aten::mm", "cuLaunchKernelEx"]),
        ("pointwise", ["aten::gelu", "cudaLaunchKernel"]),
        ("copy", ["aten::mm", "cudaMemsetAsync"]),
        ("gemm", ["aten::mm", "cuLaunchKernelEx"]),
        ("pointwise", ["aten::mul", "cudaLaunchKernel"]),
        ("gemm", ["aten::mm", "cuLaunchKernelEx"]),
    ]
    assert found.rows[1].chain[:2] == ["aten::linear", "aten::matmul"]
    assert [row.ns for row in found.rows] == [735, 55_839, 33_056, 735, 56_031, 36_736, 51_263]


def test_times_are_medians_over_the_calls(tmp_path: Path) -> None:
    found = of(calls([1_000, 9_000, 2_000]), tmp_path)[0]
    assert found.rows[0].ns == 2_000
    assert found.rows[0].delay_ns == 4_000
    assert found.rows[0].host_ns == 400_000  # the op less its launch, and the launch


def test_the_commonest_sequence_is_shown(tmp_path: Path) -> None:
    builder = (
        calls([1_000, 1_000], "ab").region("part", 9_000_000, 1_000).op("aten::add", 9_000_000, 900)
    )
    found = of(builder.launch(9_000_100, 50).kernel("c", 9_000_500, 10), tmp_path)[0]
    assert (found.calls, found.same, [row.name for row in found.rows]) == (3, 2, ["a", "b"])


def test_a_long_sequence_is_folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST", 3)
    found = of(calls([1_000], "abab"), tmp_path)[0]
    assert (found.operations, found.folded) == (4, True)
    assert [(row.name, row.times) for row in found.rows] == [("a", 2), ("b", 2)]


def test_what_does_not_fit_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 2)
    found = of(calls([1_000], "abcde"), tmp_path)[0]
    assert (len(found.rows), found.left_out) == (2, 3)


def test_regions_with_the_same_work_are_shown_once(tmp_path: Path) -> None:
    assert [entry.region for entry in of(calls([1_000]).region("outer", 0, 600_000), tmp_path)] == [
        "outer"
    ]


def test_without_regions_the_recording_is_shown(tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::add", 0, 10_000).launch(1_000, 500).kernel("a", 2_000, 100)
    found = of(builder.kernel("stray", 50_000, 100, correlation=999), tmp_path)
    assert [(entry.region, [row.name for row in entry.rows]) for entry in found] == [
        ("the whole recording", ["a", "stray"])
    ]
    assert found[0].rows[1].chain == []
