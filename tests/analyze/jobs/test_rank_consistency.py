"""Whether the traces are one whole job: what is missing, double, cut or different."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analyze.jobs.plan import Delay, Gaps, Plan, write
from analyze.jobs.planned import reading
from foretrace.analyze import jobs
from foretrace.analyze.jobs.matched_collectives import match
from foretrace.analyze.jobs.rank_consistency import rank_consistency, ranks_text
from foretrace.schema.documents.job import JobOddity


def _odd(plan: Plan, folder: Path) -> dict[str, JobOddity]:
    with reading(plan, folder) as read:
        return {each.code: each for each in rank_consistency(read.job, read.met)}


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


def test_of_two_sizes_neither_is_wrong(tmp_path: Path) -> None:
    found = _odd(Plan(data=2, gaps=Gaps(sized={0: 2})), tmp_path)
    assert found["other_size"].ranks == [0, 1]


def test_a_rank_beyond_the_world_does_not_count(tmp_path: Path) -> None:
    gaps = Gaps(missing=(1, 2, 3, 4), worlds={0: 2, 5: 2})
    found = _odd(Plan(data=6, gaps=gaps), tmp_path)["rank_missing"]
    assert found.text == "1 of 2 ranks found: no rank 1; rank 5 not in that world"


def test_ranks_that_were_not_chosen_are_not_missing(tmp_path: Path) -> None:
    write(Plan(data=4, gaps=Gaps(missing=(1,))), tmp_path)
    for chosen, codes in (("0,2", []), ("0-2", ["rank_missing"])):
        with jobs.read(tmp_path, ranks=chosen, cache=False) as job:
            found = [
                each for each in rank_consistency(job, match(job)) if each.code == "rank_missing"
            ]
            assert [each.code for each in found] == codes
            assert [each.ranks for each in found] == [[1]] * len(codes)


def test_kernels_that_one_rank_has_more_are_named(tmp_path: Path) -> None:
    found = _odd(Plan(data=4, delays=(Delay("code", 300_000, ranks=(2,)),)), tmp_path)
    assert found["other_kernels"].ranks == [2]
    assert "add 1 per step instead of 0" in found["other_kernels"].text


def test_a_slow_rank_runs_the_same_kernels(tmp_path: Path) -> None:
    assert _odd(Plan(data=3, delays=(Delay("compute", 300_000, ranks=(2,)),)), tmp_path) == {}


def test_ranks_in_few_words() -> None:
    assert ranks_text([3]) == "rank 3"
    assert ranks_text([5, 3, 4]) == "ranks 3-5"
    assert ranks_text([1, 3, 5, 7, 9]) == "ranks 1, 3, 5 and 2 more"
    assert ranks_text(range(0, 2048, 2)) == "ranks 0, 2, 4 and 1,021 more"
