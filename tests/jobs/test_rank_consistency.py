"""Whether the traces are one whole job: what is missing, double, cut or different."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from foretrace import jobs
from foretrace.jobs.documents import JobOddity
from foretrace.jobs.rank_consistency import rank_consistency
from foretrace.jobs.summary import summarize
from jobs.plan import Clock, Delay, Gaps, Plan, write
from jobs.planned import reading


def _odd(plan: Plan, folder: Path) -> dict[str, JobOddity]:
    with reading(plan, folder) as read:
        return {each.code: each for each in rank_consistency(read.job, read.met, read.clocks)}


@pytest.mark.parametrize(
    "plan", [Plan(data=4), Plan(data=2, tensor=2), Plan(data=2, pipeline=2, microbatches=2)]
)
def test_a_whole_job_has_nothing_odd(plan: Plan, tmp_path: Path) -> None:
    assert _odd(plan, tmp_path) == {}


@pytest.mark.parametrize(
    ("gaps", "code", "ranks", "text"),
    [
        ({"missing": (1, 3)}, "rank_missing", [1, 3], "2 of 4 ranks found: no ranks 1, 3"),
        ({"sized": {2: 2}}, "other_size", [2], "rank 2: 6 all-reduces of group 1 with 33.6 MB and"),
        ({"double": (2,)}, "rank_duplicate", [2], "several files have rank 2"),
        ({"worlds": {3: 8}}, "other_world_size", [3], "rank 3: world size 8, others 4"),
        ({"unrecorded": ((1, "data", 2),)}, "partly_recorded", [1], "not on rank 1"),
        ({"steps": {2: (0, 1)}}, "step_missing", [0, 1, 3], "step 4: only on ranks 0-1, 3"),
    ],
)
def test_what_is_odd_is_named(
    gaps: dict[str, Any], code: str, ranks: list[int], text: str, tmp_path: Path
) -> None:
    found = _odd(Plan(data=4, gaps=Gaps(**gaps)), tmp_path)
    assert found[code].ranks == ranks
    assert text in found[code].text


def test_kernels_that_one_rank_has_more_are_named(tmp_path: Path) -> None:
    found = _odd(Plan(data=4, delays=(Delay("code", 300_000, ranks=(2,)),)), tmp_path)
    assert found["other_kernels"].ranks == [2]
    assert "add 1 per step instead of 0" in found["other_kernels"].text


def test_a_slow_rank_runs_the_same_kernels(tmp_path: Path) -> None:
    assert _odd(Plan(data=3, delays=(Delay("compute", 300_000, ranks=(2,)),)), tmp_path) == {}


def _apart(steps: tuple[int, ...] = (0, 1, 2), ns: int = 0) -> Plan:
    """Four hosts; the clock of the third is ahead, and every file has these steps alone."""
    gaps = Gaps(steps=dict.fromkeys(range(4), steps))
    return Plan(data=4, ranks_per_host=1, clocks={2: Clock(ns)}, gaps=gaps)


@pytest.mark.parametrize(
    ("ns", "text"), [(5 * 10**9, "5.00 s ahead of"), (-(10**12), "16.7 minutes behind")]
)
def test_a_clock_that_is_seconds_off_is_named(ns: int, text: str, tmp_path: Path) -> None:
    found = _odd(_apart(ns=ns), tmp_path)
    assert found["clock_apart"].ranks == [2]
    assert (
        found["clock_apart"].text
        == f"rank 2: clock {text} the others', corrected by the collectives"
    )


@pytest.mark.parametrize(("seconds", "word"), [(5, "forward"), (-5, "back")])
def test_a_clock_that_is_set_during_the_recording_is_named(
    seconds: int, word: str, tmp_path: Path
) -> None:
    """And nobody is called late for it: the clocks' error is as large."""
    write(_apart(), tmp_path)
    path = next(each for each in tmp_path.iterdir() if each.name.startswith("node002"))
    trace = json.loads(gzip.decompress(path.read_bytes()))
    times = [each["ts"] for each in trace["traceEvents"] if each.get("cat") == "kernel"]
    for each in trace["traceEvents"]:
        each["ts"] = each.get("ts", 0) + 1e6 * seconds * (
            each.get("ts", 0) > times[len(times) // 2]
        )
    path.write_bytes(gzip.compress(json.dumps(trace).encode()))
    with jobs.read(tmp_path, cache=False) as job:
        document = summarize(job)
    found = {each.code: each for each in document.same}["clock_set"]
    assert (found.ranks, found.text) == ([2], f"rank 2: clock 5.00 s {word} during the recording")
    assert max(row.exposed_delays_ns or 0 for row in document.ranks) == 0
    assert (document.job.step_ns or 0) < 10**7
