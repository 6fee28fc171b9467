"""What is said about a job, case by case: documents made by hand, one fact changed in each."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from foretrace.jobs.documents import (
    JobCell,
    JobClock,
    JobDocument,
    JobEntry,
    JobHost,
    JobOddity,
    JobOutlier,
    JobPath,
    JobRank,
    JobWhatIf,
)
from foretrace.jobs.lines import lines
from foretrace.jobs.verdict import verdict
from job_documents import MS, job_document

MADE = job_document(slow=None)
CLOCK = JobClock(0, 0.0, 2_000, True, 240)


def rank(number: int, **changed: Any) -> JobRank:
    facts: dict[str, Any] = {
        "wall_ns": 100 * MS,
        "compute_ns": 70 * MS,
        "exposed_ns": 20 * MS,
        "both_ns": 5 * MS,
        "idle_ns": 10 * MS,
        "host_ns": 10 * MS,
        "wait_ns": 12 * MS,
        "exposed_wait_ns": 12 * MS,
        "transfer_ns": 13 * MS,
        "collectives": 240,
        "cause": "none",
        "kernel_ratio": None,
        "clock": CLOCK,
    }
    place = {"rank": number, "path": f"run/rank{number}.json.gz", "host": f"node-{number // 2}"}
    return replace(MADE.ranks[0], **place | facts | changed)


LATE = {
    "compute_ns": 76 * MS,
    "host_ns": 16 * MS,
    "data_ns": 6 * MS,
    "copy_ns": 6 * MS,
    "delays_ns": 12 * MS,
    "exposed_delays_ns": 12 * MS,
    "made_others_wait_ns": 36 * MS,
    "times_last": 212,
    "cause": "compute",
    "causes": {"compute": 1.0},
}


def job(*ranks: JobRank, **changed: Any) -> JobDocument:
    rows = ranks or tuple(rank(number) for number in range(4))
    entry = JobEntry(
        "run", len(rows), 4, 2, ["NVIDIA H100"], [3, 4, 5], 100 * MS, 10**7, 10**5, 100 * MS, 900
    )
    facts: dict[str, Any] = {"job": entry, "ranks": list(rows), "matched": 240, "collectives": 960}
    nothing: dict[str, Any] = {"hosts": [], "cells": [], "path": None, "network": []}
    found = replace(MADE, **facts | nothing | {"perfect_overlap_ns": 8 * MS} | changed)
    found.verdict = verdict(found)
    return found


def said(document: JobDocument) -> dict[str, str]:
    return {line.label: line.text for line in lines(document)}


def ranks(worst: JobRank) -> list[JobRank]:
    return [worst if worst.rank == number else rank(number) for number in range(4)]


@pytest.mark.parametrize(
    ("cause", "words", "first"),
    [
        (
            "data",
            "its data loader is late",
            "load data faster (workers, prefetch, pin_memory) on rank 2 (node-1)",
        ),
        ("host", "its host launches late", "see why the host of rank 2 (node-1) is late"),
        ("copies", "its copies take longer", "see what rank 2 (node-1) copies"),
        ("compute", "its compute takes longer", "see what rank 2 (node-1) computes longer"),
    ],
)
def test_every_cause_has_its_words(cause: str, words: str, first: str) -> None:
    found = said(job(*ranks(rank(2, **LATE | {"cause": cause, "causes": {cause: 1.0}}))))
    assert f"collectives: {words}; the others wait" in found["STRAGGLER"]
    assert found["DO FIRST"].startswith(first)


@pytest.mark.parametrize("cause", ["other_comms", "earlier", "clock", "none", ""])
def test_no_rank_is_blamed_without_a_cause_of_its_own(cause: str) -> None:
    found = said(job(*ranks(rank(2, **LATE | {"cause": cause, "causes": {}}))))
    assert found["INCONCLUSIVE"].endswith("for rank 2 (node-1), and the traces do not say why")
    assert "rank 2" not in found["DO FIRST"]


def _replayed(*saves: tuple[list[int], int]) -> JobPath:
    rows = [JobWhatIf("ranks", "", None, ns, ranks) for ranks, ns in saves]
    return JobPath(4, 100 * MS, [0], {}, [], rows)


def _cells(*late: int) -> list[JobCell]:
    return [JobCell(number, 4, 0, 0, 0, 0, 0, True, 12 * MS) for number in late]


def test_the_replay_decides_what_a_late_rank_saves() -> None:
    """Of two that are equally late, one alone saves nothing; a third saves more after them."""
    late = [rank(0), rank(1), rank(2, **LATE), rank(3, **LATE)]
    path = _replayed(([2], 35_000), ([2, 3], 11 * MS))
    found = said(job(*late, path=path, cells=_cells(2, 3)))
    assert found["DO FIRST"].endswith(
        "; rank 3 (node-1) is late too; saves about 11.0 ms per step with both, 35.0 us with rank 2 "
        "alone"
    )
    path = _replayed(([2], 5 * MS), ([2, 3], 11 * MS))
    found = said(job(*late, path=path, cells=_cells(2, 3)))
    assert found["DO FIRST"].endswith("rank2.json.gz; saves about 5.00 ms per step")
    assert found["THEN"].endswith("rank3.json.gz; saves about 6.00 ms per step more")


def late(**changed: Any) -> list[JobRank]:
    return ranks(rank(2, **LATE | changed))


def test_nothing_below_the_clocks_error_is_advised() -> None:
    clock = JobClock(0, 0.0, 13 * MS, True, 240)
    document = job(*ranks(rank(2, **LATE, clock=clock)))
    assert document.verdict.bound == "inconclusive"
    assert document.verdict.text == (
        "the others wait 12.0 ms for rank 2 (node-1), and that is within the clocks' error (13.0 ms)"
    )
    assert "rank 2" not in document.verdict.first


def test_a_rank_that_could_not_be_judged_is_never_called_none() -> None:
    lost = JobOddity("lost_data", "data_loss", 1, "rank 2: part of the file is lost", [2])
    cut = job(*ranks(rank(2, collectives=100)), same=[lost])
    assert cut.verdict.bound == "balanced"
    assert cut.verdict.text.endswith(
        "; the file of rank 2 is cut: judged on 100 collectives that it has"
    )
    for few in ({"collectives": 3}, {"collectives": 0}):
        document = job(*ranks(rank(2, **few)), same=[lost])
        assert document.verdict.bound == "inconclusive"
        assert document.verdict.text.endswith("; rank 2 could not be judged")


def test_a_cause_needs_its_evidence_in_the_times_of_the_rank() -> None:
    document = job(*ranks(rank(2, **LATE | {"compute_ns": 71 * MS})))
    assert document.verdict.bound == "inconclusive"
    assert document.verdict.text.endswith("and the traces do not say why")


def test_within_the_clocks_error_it_is_inconclusive() -> None:
    text = "in all 240 collectives the ranks come within the clocks' error"
    assert said(job(undecided=240))["NO STRAGGLER"] == f"{text} (2.00 us)"
    loose = [rank(number, clock=JobClock(0, 0.0, 30_000, True, 240)) for number in range(4)]
    assert said(job(*loose, undecided=240))["INCONCLUSIVE"] == f"{text} (30.0 us)"
    worse = [rank(number, clock=JobClock(0, 0.0, 2 * MS, True, 240)) for number in range(4)]
    assert said(job(*worse))["INCONCLUSIVE"].endswith("beyond the clocks' error (2.00 ms)")


def test_missing_ranks_qualify_who_was_last() -> None:
    two = job(rank(0), rank(1, **LATE))
    two.job = replace(two.job, world_size=128)
    two.verdict = verdict(two)
    assert said(two)["STRAGGLER"].endswith(
        "; 126 of 128 ranks missing: any of them may have come later"
    )


def test_a_slow_network_is_the_cause_of_a_slow_host() -> None:
    host = JobHost("node-1", 2, 230, 40 * MS, 15 * MS, "other_comms", True, 15 * MS)
    slow = JobOutlier("host", "node-1", "all-reduce", 25_200_000, 80.0, 212.0, 60)
    found = said(job(hosts=[host], outliers=[slow]))
    assert "come late: its network is slow, 80 GB/s in all-reduce" in found["SLOW HOST"]
    assert found["DO FIRST"].startswith("inspect the network of node-1: 80 GB/s")
