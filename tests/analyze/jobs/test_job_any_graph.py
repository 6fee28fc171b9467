"""Whatever the tables hold, a path tiles its step and a replay without a change repeats it."""

from __future__ import annotations

import random
from typing import Any

import polars as pl

from analyze.jobs.fake import BASE_NS, FakeJob, collectives, facts
from foretrace.analyze.jobs.clocks import CLOCKS, fit
from foretrace.analyze.jobs.critical_path import graph, walked
from foretrace.analyze.jobs.job import COLUMNS
from foretrace.analyze.jobs.matched_collectives import match
from foretrace.analyze.jobs.what_if import Replay, StepChange, what_ifs

STEP = 1


def _table(name: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, {"rank": pl.Int64, **COLUMNS[name]})


def _stretch(chance: random.Random) -> dict[str, int]:
    """A start and an end: often the same moments, sometimes no time in between."""
    start = chance.randrange(-20, 100)
    length = chance.choice([0, 1, 5, 20, 60])
    return {"start_ns": BASE_NS + start * 1000, "end_ns": BASE_NS + (start + length) * 1000}


def _random_job(chance: random.Random) -> FakeJob:
    ranks = range(chance.choice([1, 2, 3, 6]))
    steps, spans, host, talks = [], [], [], []
    for rank in ranks:
        begin, end = (
            BASE_NS + chance.randrange(5) * 1000,
            BASE_NS + chance.randrange(90, 130) * 1000,
        )
        if rank == 0 or chance.random() < 0.9:
            edges = {"window_start_ns": begin, "window_end_ns": end}
            steps.append({"rank": rank, "step": STEP, "whole": True, **edges})
        for _ in range(chance.randrange(12)):
            kind = {"kind": chance.choice(["compute", "copy", "comms"]), "name": "k"}
            place = {"stream": chance.choice([7, 7, 20, None]), "count": chance.choice([1, 3])}
            spans.append({"rank": rank, "step": STEP, **kind, **place, **_stretch(chance)})
        for _ in range(chance.randrange(3)):
            host.append({"rank": rank, "kind": chance.choice(["data", "sync"]), **_stretch(chance)})
        for seq in range(chance.randrange(6)):
            told = {
                "seq": chance.choice([seq, seq, None]),
                "group_size": chance.choice([None, 2, 6]),
            }
            place = {"stream": chance.choice([20, 24, None]), "on_host": chance.random() < 0.1}
            talks.append({"rank": rank, "group": chance.choice("01"), **told, **place, **_stretch(chance)})  # fmt: skip
    return FakeJob(
        [facts(rank) for rank in ranks],
        steps=_table("steps", steps),
        spans=_table("spans", spans),
        host=_table("host", host),
        collectives=collectives(talks),
    )


def _one_clock(job: FakeJob) -> pl.DataFrame:
    """Clocks that agree, so that all ranks compare."""
    rows = [{"rank": each.rank, "fitted": True, "reference": 0} for each in job.facts]
    return pl.DataFrame(rows, CLOCKS)


def test_any_job() -> None:
    for seed in range(36):
        _check(seed)


def _check(seed: int) -> None:
    job: Any = _random_job(random.Random(seed))
    met = match(job)
    clocks = _one_clock(job) if seed % 4 else fit(job, met)
    steps = graph(job, met, clocks, STEP)
    assert steps is not None
    path = walked(steps)
    start, end = path.segments["start_ns"].to_list(), path.segments["end_ns"].to_list()
    assert [path.start_ns, *end] == [*start, path.end_ns]
    assert Replay(steps).lengths([StepChange()]) == [path.length_ns]
    assert all(0 < each.saves_ns <= path.length_ns for each in what_ifs(job, steps, path, met))
