"""Chosen ranks as one trace for Perfetto."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
from msgspec.structs import replace

import foretrace
from foretrace.show.share import job_perfetto
from foretrace.show.share.perfetto import PID
from job_lanes import BASE, job_lanes


def load(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path) as file:
        document = json.load(file)
    assert document["baseTimeNanoseconds"] == BASE
    events: list[dict[str, Any]] = document["traceEvents"]
    return events


def test_each_rank_is_a_process_and_arrows_lead_from_the_last(tmp_path: Path) -> None:
    lanes, target = job_lanes(4, 3), tmp_path / "ranks.json.gz"
    assert job_perfetto.write(lanes, target) == lanes.spans.height
    events = load(target)
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
    job_perfetto.write(twice, target)
    ends: dict[tuple[int, int], float] = {}
    for each in load(target):
        if each["ph"] == "X":
            place = each["pid"], each["tid"]
            assert each["ts"] >= ends.get(place, 0) - 1e-3
            ends[place] = each["ts"] + each["dur"]


def test_the_file_opens_as_a_trace(tmp_path: Path) -> None:
    job_perfetto.write(job_lanes(), tmp_path / "ranks.json.gz")
    trace = foretrace.open(tmp_path / "ranks.json.gz", cache=False)
    assert trace.ledger.skipped == 0
