"""Jobs that torch recorded itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from corpus.places import PUBLIC
from foretrace.analyze import jobs
from foretrace.schema.documents.job import JobDocument
from foretrace.show.overview.job_verdict import overview_of_job

RANKS, SLOW, LATE_NS = 4, 2, 300_000_000  # as in gloo_script.py


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> JobDocument:
    """What foretrace says of four ranks of which one sleeps before it sums its gradients."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("gloo")
    script = str(Path(__file__).with_name("gloo_script.py"))
    subprocess.run([sys.executable, script, str(folder)], check=True, timeout=120, stderr=-3)
    return document_of(folder / "traces")


def document_of(folder: Path) -> JobDocument:
    job = jobs.read(folder, cache=False)
    try:
        return overview_of_job(job)
    finally:
        job.close()


@pytest.mark.torch
def test_the_late_rank_is_found(told: JobDocument) -> None:
    assert (told.job.ranks, told.job.world_size, told.job.steps) == (RANKS, RANKS, [2, 3, 4])
    worst = max(told.ranks, key=lambda each: each.made_others_wait_ns or 0)
    assert worst.rank == SLOW
    assert worst.cause == "host"
    assert str(SLOW) in told.verdict.text


@pytest.mark.torch
def test_the_others_wait_as_long_as_it_sleeps(told: JobDocument) -> None:
    """Two sums a step; the first waits for the sleep, which outweighs what a busy machine adds."""
    for each in told.ranks:
        waits = each.wait_ns or 0
        assert (waits > LATE_NS * 0.5) == (each.rank != SLOW)


@pytest.mark.torch
def test_one_machine_has_one_clock(told: JobDocument) -> None:
    """The true offsets are 0, and the fit says how wrong it may be; where other programs hold up the
    ranks at every collective, it is a little more wrong than that.
    """
    for each in told.ranks:
        assert each.host == told.ranks[0].host
        if each.clock.fitted:
            assert abs(each.clock.offset_ns or 0) <= 2 * (each.clock.error_ns or 0)


@pytest.mark.torch
def test_matched_by_order_is_said(told: JobDocument) -> None:
    assert told.matched == told.by_order == 6


@pytest.mark.public
@pytest.mark.skipif(not PUBLIC, reason="FORETRACE_PUBLIC_TRACES names no folder of public traces")
def test_the_public_two_ranks_of_128(tmp_path: Path) -> None:
    """They are thinned, and say nothing about groups or sequence: nothing is matched by number."""
    for name in ("ranks_0.json.gz", "ranks_1.json.gz"):
        shutil.copy(Path(PUBLIC, name), tmp_path)
    told = document_of(tmp_path)
    assert (told.job.ranks, told.job.world_size) == (2, 128)
    assert told.matched == told.by_order
    assert told.verdict.text
    assert any("126" in each.text or each.count == 126 for each in told.same)
