"""What is said about a job, case by case: documents made by hand, one fact changed in each."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from foretrace.schema.documents.job import (
    JobBubble,
    JobCell,
    JobClock,
    JobDocument,
    JobEntry,
    JobHost,
    JobNetwork,
    JobOddity,
    JobOutlier,
    JobOverlap,
    JobPath,
    JobRank,
    JobWhatIf,
)
from foretrace.schema.documents.look import LeftOut
from foretrace.show.overview.job_verdict import lines, title, verdict
from foretrace.show.render.job_page import PARTS, first_screen, sections
from foretrace.show.render.terminal import drawn, marked
from job_documents import MS, job_document
from sweep import looped

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


def test_the_title_counts_ranks_hosts_and_steps() -> None:
    assert title(job()) == "4 of 4 ranks on 2 hosts · NVIDIA H100 · 3 steps of 100 ms"


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


STEPS = [JobCell(2, step, 0, 0, 0, 0, 0, True, 36 * MS * (step == 4)) for step in (3, 4, 5)]
GATHERED = JobOverlap("fsdp", "all-gather", 24, 30 * MS, 20 * MS, 12 * MS, 4)
QUIET = [rank(number, idle_ns=0) for number in range(4)]
HUNGRY = [rank(number, data_ns=9 * MS) for number in range(4)]
LEFT = [LeftOut(f"run/rank{number}.json", "E_GZIP", "damaged") for number in (8, 9)]
THREE = JobOddity("rank_missing", "data_loss", 1, "3 of 4 ranks found", [3])
# of a job, what a line says; … stands for what is left out
SAID: list[tuple[JobDocument, dict[str, str]]] = [
    (
        job(*late(slow="gpu", kernel_ratio=1.31)),
        {
            "STRAGGLER": "rank 2 (node-1) came last in 212 of 240 collectives: its compute takes longer "
            "(1.31x for the same kernels); the others wait 12.0 ms (12.0%) per step for it",
            "DO FIRST": "inspect the GPU of rank 2 (node-1): clocks, power, heat; the same kernels take "
            "1.31x as long; saves at most 12.0 ms per step",
        },
    ),
    (
        job(*late(slow="code")),
        {
            "STRAGGLER": "…its compute takes longer (more or other kernels); the others…",
            "DO FIRST": "balance the work: rank 2 (node-1) runs more or other…",
        },
    ),
    (
        job(*late(exposed_delays_ns=MS // 2)),
        {
            "NO STRAGGLER": "no rank makes the others wait for 1% of a step: at most 500 us for rank 2 "
            "(node-1)"
        },
    ),
    (
        job(*late(exposed_delays_ns=4 * MS)),
        {
            "STRAGGLER": "…wait 12.0 ms per step for it, at most 4.00 ms (4.0%) of it without compute"
        },
    ),
    (job(*late(exposed_delays_ns=0)), {"NO STRAGGLER": "…"}),
    (job(*late(), cells=STEPS), {"STRAGGLER": "…per step for it, all of it in step 4"}),
    (
        job(),
        {
            "STEP": "as recorded: compute 70.0%, exposed comms 20.0%, copies 0.0%, idle 10.0%",
            "DO FIRST": "see why every GPU idles, 10.0% of a step on rank 0 (node-0): foretrace look "
            "run/rank0.json.gz; saves at most 10.0 ms per step",
            "SAME JOB": "yes: ranks of one run with the same kernels and shapes; clocks within 2.00 us",
        },
    ),
    (job(same=[THREE]), {"SAME JOB": "3 of 4 ranks found; clocks within 2.00 us"}),
    (job(by_order=8), {"SAME JOB": "…; 8 of 240 collectives matched by order: they…"}),
    (
        job(*QUIET, overlap=[GATHERED]),
        {
            "EXPOSED": "20.0 ms per step of communication without compute; 12.0 ms of it waiting for "
            "other ranks",
            "DO FIRST": "overlap all-gather with compute: 8.00 ms per step is alone; saves at most "
            "8.00 ms per step",
        },
    ),
    (
        job(*HUNGRY),
        {
            "DO FIRST": "load data faster (workers, prefetch, pin_memory): every GPU idles, 10.0% of a "
            "step…"
        },
    ),
    (
        job(rank(0), matched=0),
        {"WAITS UNKNOWN": "one rank alone does not say who waits for whom; 3 other ranks missing"},
    ),
    (
        job(rank(0), rank(1)),
        {"INCONCLUSIVE": "…2 of 4 ranks missing: any of them may have come later"},
    ),
    (job(left_out=LEFT), {"NOT READ": "2 files: rank8.json (E_GZIP) and 1 more"}),
    # a replay that lacks a rank is an upper bound, one of a step without the delay decides nothing
    (
        job(*late(), path=replace(_replayed(([2], 5 * MS)), compared=3), cells=_cells(2)),
        {"DO FIRST": "…saves at most 5.00 ms per step"},
    ),
    (
        job(*late(), path=_replayed(([2], 0)), cells=[]),
        {"DO FIRST": "…saves at most 12.0 ms per step"},
    ),
]


@looped(("document", "texts"), SAID, ids=range(len(SAID)))
def test_what_a_line_says(document: JobDocument, texts: dict[str, str]) -> None:
    found = said(document)
    for label, text in texts.items():
        pattern = re.escape(text).replace("…", ".*")
        assert re.fullmatch(pattern, found[label]), f"{label}: {found[label]}"


def test_nothing_below_the_clocks_error_is_advised() -> None:
    clock = JobClock(0, 0.0, 13 * MS, True, 240)
    document = job(*ranks(rank(2, **LATE, clock=clock)))
    assert document.verdict.bound == "inconclusive"
    assert document.verdict.text == (
        "the others wait 12.0 ms for rank 2 (node-1), and that is within the clocks' error (13.0 ms)"
    )
    assert "rank 2" not in document.verdict.first


def test_a_rank_beyond_the_world_is_not_one_of_it() -> None:
    entry = replace(job().job, ranks=5, of_world=4)
    assert title(job(job=entry)).startswith("5 ranks (world size 4) on 2 hosts")
    entry = replace(job().job, ranks=2, world_size=2, of_world=1)
    two = job(rank(0), rank(5), job=entry)
    assert title(two).startswith("2 ranks (world size 2)")
    assert two.verdict.text.endswith("1 of 2 ranks missing: it may have come later")


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


def test_a_slow_group_is_named_with_what_it_costs() -> None:
    slow = JobOutlier("group", "6", "all-reduce", 1 << 20, 30.0, 90.0, 12)
    path = JobPath(4, 100 * MS, [0], {}, [], [JobWhatIf("group", "group 6", None, 9 * MS)])
    document = job(outliers=[slow], path=path)
    assert document.verdict.bound == "slow_link"
    assert document.verdict.text == (
        "group 6 is slow: 30 GB/s in all-reduce of 1.05 MB, its equals 90 GB/s; it costs about "
        "9.00 ms (9.0%) per step"
    )


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


def test_a_host_is_slow_for_one_reason() -> None:
    host = JobHost("node-1", 2, 230, 40 * MS, 15 * MS, "compute", True, 15 * MS)
    late = rank(2, **LATE), rank(3, **LATE | {"cause": "host", "causes": {"host": 1.0}})
    assert job(rank(0), rank(1), *late, hosts=[host]).verdict.bound == "straggler"


def test_the_only_host_is_not_slow() -> None:
    host = JobHost("node-1", 4, 230, 40 * MS, 15 * MS, "compute", True, 15 * MS)
    assert job(hosts=[host]).verdict.bound == "balanced"


def test_a_slow_link_beside_it_does_not_hide_a_late_rank() -> None:
    """Half of the ranks are late through a slow group: that is no noise in turn."""
    linked = {"cause": "other_comms", "delays_ns": 8 * MS, "exposed_delays_ns": 8 * MS}
    document = job(rank(0), rank(1, **linked), rank(2, **LATE), rank(3, **linked))
    assert document.verdict.text.startswith("rank 2 ")


def test_a_slow_host_comes_before_its_ranks() -> None:
    host = JobHost("node-1", 2, 230, 40 * MS, 15 * MS, "compute", True, 15 * MS)
    both = {2: rank(2, **LATE), 3: rank(3, **LATE)}
    found = said(job(*(both.get(number, rank(number)) for number in range(4)), hosts=[host]))
    assert found["SLOW HOST"] == (
        "the 2 ranks of node-1 come late: its compute takes longer; the others wait 15.0 ms (15.0%) "
        "per step for them"
    )
    assert found["DO FIRST"] == "inspect host node-1; saves at most 15.0 ms per step"
    assert "rank 2" not in found["THEN"]  # its ranks are not a second fix


def test_uneven_stages_are_a_fix() -> None:
    uneven = [rank(number, compute_ns=(70 + 20 * (number > 1)) * MS) for number in range(4)]
    bubbles = [JobBubble(0, [0, 1], 30 * MS, 0.3), JobBubble(1, [2, 3], 10 * MS, 0.1)]
    found = said(job(*uneven, bubbles=bubbles))
    longest = "stage 1 computes longest: 90.0 ms, the usual one 70.0 ms"
    assert found["PIPELINE"] == (
        f"2 stages; stage 0 waits 30.0 ms of a step for the others (30.0%); {longest}"
    )
    assert found["DO FIRST"] == f"balance the stages: {longest}; saves at most 30.0 ms per step"
    even = said(job(bubbles=bubbles))["DO FIRST"]
    assert even.startswith("shorten the pipeline's bubbles (more microbatches): stage 0 waits 30%")


def test_the_network_and_its_outlier() -> None:
    row = JobNetwork("all-reduce", "BFloat16", 25_200_000, "dp", 8, 240, 2e6, 100.0, 212.0, 220.0)
    slow = JobOutlier("host", "node-1", "all-reduce", 25_200_000, 80.0, 212.0, 60)
    assert said(job(network=[row], outliers=[slow]))["NETWORK"] == (
        "all-reduce, 25.2 MB over 8 ranks: 212 GB/s on the bus (median of 240); "
        "host node-1 is slow: 80 GB/s in all-reduce of 25.2 MB, its equals 212 GB/s"
    )
    few = replace(row, at_least=True)
    assert "8 ranks: at least 212 GB/s" in said(job(network=[few]))["NETWORK"]


def test_a_slow_network_is_the_cause_of_a_slow_host() -> None:
    host = JobHost("node-1", 2, 230, 40 * MS, 15 * MS, "other_comms", True, 15 * MS)
    slow = JobOutlier("host", "node-1", "all-reduce", 25_200_000, 80.0, 212.0, 60)
    found = said(job(hosts=[host], outliers=[slow]))
    assert "come late: its network is slow, 80 GB/s in all-reduce" in found["SLOW HOST"]
    assert found["DO FIRST"].startswith("inspect the network of node-1: 80 GB/s")


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"collectives": 0}, "no collective was recorded: who waits for whom is not in the traces"),
        ({"collectives": 8, "unnamed": 8}, "8 collectives recorded without a group: which of them"),
        ({"collectives": 8}, "no two of these ranks recorded the same collective"),
    ],
)
def test_why_waits_are_unknown(facts: dict[str, int], words: str) -> None:
    adrift = [rank(number, clock=JobClock(None, None, None, False, 0)) for number in range(4)]
    assert said(job(*adrift))["WAITS UNKNOWN"].startswith("no clocks fit the 240 collectives")
    assert said(job(matched=0, **facts))["WAITS UNKNOWN"].startswith(words)


def test_the_first_screen_has_at_most_25_lines() -> None:
    many = job(*(rank(number, host=f"node-{number // 8:03}", **LATE) for number in range(1024)))
    for width in (80, 100, 200):
        text = drawn(first_screen(many, width), width=width)
        assert text.count("\n") < 25
        assert max(map(len, text.splitlines())) <= width
        assert "and 1,0" in text


def test_every_part_draws_as_text_and_markdown() -> None:
    page = sections(job(), PARTS, 20)
    assert drawn(page)
    assert marked(page)
