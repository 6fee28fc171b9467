"""Statements about sets of traces and damaged ones that were false."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from corpus.build import g0
from corpus.opening import run
from foretrace.trace.metadata import Member, set_notes


def written(folder: Path, name: str, **info: Any) -> None:
    """A small trace whose header has this `distributedInfo`."""
    (folder / name).write_bytes(g0().head(distributedInfo=info).bytes())


def test_unrelated_traces_are_no_job(tmp_path: Path) -> None:
    """Folder of unrelated traces: "3 of 300 ranks are here"; not one job."""
    written(tmp_path, "cpu_only.json", backend="gloo", rank=34, world_size=300)
    written(tmp_path, "a100_nccl.json", backend="nccl", rank=0, world_size=2)
    written(tmp_path, "b200_eager.json", backend="nccl", rank=1, world_size=8)
    page = run("look", str(tmp_path), "--no-cache").out
    assert "SEPARATE TRACES" in page
    assert "ranks" not in page
    document = json.loads(run("look", str(tmp_path), "--no-cache", "--json").out)
    assert (document["notes"], document["job"]) == ([], [])


@pytest.mark.parametrize(
    "other",
    [
        {"world_size": 4},
        {"backend": "gloo"},
        {"nccl_version": "2.20.5"},
        {"pg_config": [{"pg_name": "0", "pg_size": 4}]},
    ],
    ids=str,
)
def test_ranks_must_agree_on_their_job(other: dict[str, Any], tmp_path: Path) -> None:
    """Ranks 0 and 1 that state the same are one job; with any difference they are separate."""
    stated = {"backend": "nccl", "world_size": 2, "nccl_version": "2.21.5"}
    written(tmp_path, "a.json", rank=0, **stated)
    written(tmp_path, "b.json", rank=1, **stated)
    assert "ONE JOB  2 ranks" in run("look", str(tmp_path), "--no-cache").out
    written(tmp_path, "b.json", rank=1, **(stated | other))
    assert "SEPARATE TRACES" in run("look", str(tmp_path), "--no-cache").out


def test_job_and_look_agree_on_separate_traces(tmp_path: Path) -> None:
    """Recordings of several scripts: "SEPARATE TRACES" in look, and "6 ranks on 1 host" in job."""
    for name in ("conv", "lstm"):
        (tmp_path / f"{name}.json").write_bytes(g0().bytes())
    assert "SEPARATE TRACES" in run("look", str(tmp_path), "--no-cache").out
    for command in (["job"], ["check"], ["compare", str(tmp_path)]):
        said = run(*command, str(tmp_path), "--no-cache")
        assert (said.code, said.out) == (2, "")
        assert re.search(r"2 (separate )?traces", said.err)
        assert f"foretrace look {tmp_path}" in said.err


def test_equal_ranks_do_not_differ(tmp_path: Path) -> None:
    """Was "DIFFER   host time per step: 317 us (rank 0) to 317 us (rank 0), 1.00x"."""
    for rank in (0, 1):
        written(tmp_path, f"{rank}.json", backend="nccl", rank=rank, world_size=2)
    page = run("look", str(tmp_path), "--no-cache").out
    assert "ONE JOB  2 ranks" in page
    assert "DIFFER" not in page


def test_jobs_of_one_process_are_separate() -> None:
    """Several traces with rank 0 of 1: no rank occurs twice."""
    assert set_notes([Member(f"{name}.json", 0, 1, 5, "1 nccl") for name in "ab"]) == ()
