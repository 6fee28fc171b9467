"""Commands that take one trace, given a folder of ranks: check, compare, report; and files of job."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import jsonschema
import pytest

from analyze.jobs.plan import Delay, Plan, write
from corpus.opening import run
from foretrace.schema.documents import compare_jobs, json_schema

LATE_NS = 900_000


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Four ranks of which rank 2 computes longer, and the same without the delay."""
    late, good = (tmp_path_factory.mktemp(name) for name in ("late", "good"))
    write(Plan(ranks_per_host=2, delays=(Delay("compute", LATE_NS, ranks=(2,)),)), late)
    write(Plan(ranks_per_host=2), good)
    return str(late), str(good)


def test_predictions_about_a_job(folders: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text('[[guess]]\ntext = "rank 2 is last"\nreason = "its GPU is hot"\n')
    hits = ("world size == 4", "hosts == 2", "slowest rank is rank 2", "bus bandwidth > 90 GB/s")
    texts = [part for text in hits for part in ("-g", text)]
    done = run("check", folders[0], *texts, "--guesses", str(file), "--json")
    assert (done.code, json.loads(done.out)["hits"]) == (0, 5)
    missed = run("check", folders[0], "-g", "every rank: wait < 1 us", "-g", "kernels == 5")
    assert missed.code == 2
    assert "MISS    every rank: wait < 1 us" in missed.out
    assert "about one trace" in missed.out
    assert run("check", folders[0], "-g", "ranks == 4", "--against", folders[1]).code == 2
    of_a_trace = run("check", folders[0], "-g", "kernels == 5")
    assert (of_a_trace.code, of_a_trace.out) == (2, "")
    assert "contains 4 traces" in of_a_trace.err


def test_two_jobs_compared(folders: tuple[str, str]) -> None:
    done = run("compare", *folders, "--json", "--fail-if", "step > 1x")
    answer = json.loads(done.out)
    jsonschema.validate(answer, json_schema(compare_jobs.DOCUMENT))
    assert done.code == 0
    assert "ok  step > 1x: " in done.err
    assert answer["verdict"]["answer"] == "faster"
    assert abs(answer["verdict"]["saves_at_least_ns"] - LATE_NS) < 0.02 * LATE_NS
    assert (answer["last_a"]["rank"], answer["last_b"]) == (2, None)
    back = run("compare", *reversed(folders), "--fail-if", "step > 1x")
    assert (back.code, back.out.count("\n") <= 25) == (1, True)
    assert "SLOWER" in back.out
    assert "| step |" in run("compare", *folders, "--markdown").out


def test_a_job_is_compared_with_one_job(folders: tuple[str, str]) -> None:
    one = str(next(Path(folders[0]).iterdir()))
    for arguments in ((folders[0], one), (*folders, folders[0]), (*folders, "--region", "x")):
        done = run("compare", *arguments)
        assert (done.code, done.err.count("\n")) == (2, 1)


def test_the_page_of_a_job(folders: tuple[str, str], tmp_path: Path) -> None:
    target = tmp_path / "job.html"
    done = run("report", folders[0], "-o", str(target), "-g", "rank 2 is last")
    assert (done.code, done.out) == (0, f"{target}\n")
    assert '"hits":1' in target.read_text(encoding="utf-8")
    assert run("report", folders[0], "-o", str(target)).code == 2  # it is there already
    assert run("report", folders[0], "--step", "0", "-o", str(tmp_path / "b.html")).code == 2


def test_chosen_ranks_as_text_page_and_trace(folders: tuple[str, str], tmp_path: Path) -> None:
    page, trace = tmp_path / "job.html", tmp_path / "job.json.gz"
    files = ("--html", str(page), "--perfetto", str(trace))
    done = run("job", folders[0], "--timeline", "0,2", *files)
    assert done.code == 0
    assert "rank 2 (node001) gpu" in done.out
    assert "rank 1 (node000) gpu" not in done.out
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    assert {0, 2} < {event["pid"] for event in events}
    assert "rank 2 (node001)" in page.read_text(encoding="utf-8")
