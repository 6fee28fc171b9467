"""The annotated copy of a trace, and chosen ranks of a job as one trace."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace

import foretrace
from foretrace.look import look
from foretrace.pages.export.perfetto import PID, annotated, write_ranks
from foretrace.read.recordings import traces
from job_lanes import BASE, job_lanes
from opened_traces import opened

NAMES = ["mlp_eager", "mlp_compiled", "mlp_eager_train", "matmul_add_64_compiled"]


def _load(path: Path, base_ns: int | None = None) -> list[dict[str, Any]]:
    with gzip.open(path) as file:
        document = json.load(file)
    assert base_ns in (None, document["baseTimeNanoseconds"])
    events: list[dict[str, Any]] = document["traceEvents"]
    return events


@pytest.mark.parametrize("name", NAMES)
def test_added_tracks_hold_what_was_written_and_the_rest_says_the_same(
    name: str, tmp_path: Path
) -> None:
    trace, target = opened(traces()[name]), tmp_path / "copy.json.gz"
    counts = annotated(trace, target)
    events = [event for event in _load(target) if event["pid"] == PID]
    _check_apart(events)
    before, after = look(trace), look(foretrace.open(target, cache=False))
    assert after.totals == before.totals
    # events have other numbers in the copy
    ours, theirs = ([replace(row, first=-1) for row in each.kernels] for each in (after, before))
    assert ours == theirs
    labels = {
        event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"
    }
    assert dict(Counter(labels[event["tid"]] for event in events if event["ph"] == "X")) == {
        k: v for k, v in counts.items() if v
    }
    decoded = sum(count for label, count in counts.items() if label.startswith("decoded"))
    assert decoded == int(trace.gpu.usable.sum())


def test_idle_time_is_painted_where_the_gpu_is_idle(tmp_path: Path) -> None:
    annotated(opened(traces()["mlp_eager"]), tmp_path / "copy.json.gz")
    events = _load(tmp_path / "copy.json.gz")
    work = [event for event in events if event.get("cat") in ("kernel", "gpu_memset")]
    track = "finding: idle_gaps"
    (tid,) = (event["tid"] for event in events if event.get("args", {}).get("name") == track)
    painted = [event for event in events if (event["pid"], event.get("tid")) == (PID, tid)]
    gaps = [event for event in painted if event["ph"] == "X"]
    assert len(gaps) == 7
    for gap in gaps:
        end = gap["ts"] + gap["dur"]
        assert all(
            each["ts"] + each["dur"] < gap["ts"] + 0.01 or each["ts"] > end - 0.01 for each in work
        )


def test_the_command_writes_a_copy_and_minds_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from foretrace.cli import main

    out = str(tmp_path / "copy.json.gz")
    given = ["export", str(traces()["mlp_eager"]), "--to", "perfetto", "--annotated", "-o", out]
    assert main([*given, "--no-browser"]) == 0
    assert capsys.readouterr().out.strip() == out
    assert main([*given, "--no-browser"]) == 2


def test_each_rank_is_a_process_and_arrows_lead_from_the_last(tmp_path: Path) -> None:
    lanes, target = job_lanes(4, 3), tmp_path / "ranks.json.gz"
    assert write_ranks(lanes, target) == lanes.spans.height
    events = _load(target, BASE)
    names = {each["pid"]: each["args"]["name"] for each in events if each["name"] == "process_name"}
    assert names[3] == "rank 3 (node-1)"
    steps = [each["name"] for each in events if each["ph"] == "X" and each["pid"] == PID]
    assert steps == ["step 0", "step 1", "step 2"]
    slices = [each for each in events if each["ph"] == "X" and each["pid"] != PID]
    assert len(slices) == lanes.spans.height
    assert {each["name"] for each in slices} == {
        "gemm",
        "all-reduce (wait)",
        "all-reduce (transfer)",
    }
    begins, ends = ([each for each in events if each["ph"] == phase] for phase in "sf")
    assert {each["pid"] for each in begins} == {3}
    assert [each["id"] for each in begins] == [each["id"] for each in ends]
    assert len(ends) == 3 * 3  # three other ranks in each of three steps
    for begin, end in zip(begins, ends, strict=True):
        assert begin["ts"] == end["ts"]  # on one clock


def test_slices_of_one_thread_never_overlap(tmp_path: Path) -> None:
    lanes, target = job_lanes(2), tmp_path / "ranks.json.gz"
    twice = replace(lanes, spans=pl.concat([lanes.spans] * 2).sort("rank", "start_ns"))
    write_ranks(twice, target)
    _check_apart(_load(target))
    assert foretrace.open(target, cache=False).ledger.skipped == 0


def _check_apart(events: list[dict[str, Any]]) -> None:
    """No two slices of a track at once."""
    ends: dict[tuple[int, int], float] = {}
    for each in events:
        if each["ph"] == "X":
            place = each["pid"], each["tid"]
            assert each["ts"] >= ends.get(place, 0) - 1e-3
            ends[place] = each["ts"] + each["dur"]
