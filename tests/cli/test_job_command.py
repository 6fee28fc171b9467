"""`foretrace job`, and other commands that are given a folder of ranks: forms, sections, choices, bad input."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import msgspec
import pytest

from corpus.opening import run
from foretrace.base.budget import Limits
from foretrace.cli import main
from foretrace.compare import jobs as compare
from foretrace.jobs import documents as document
from foretrace.jobs.reading import Answers, local_answers
from jobs.plan import Clock, Delay, Plan, write

LATE_NS = 900_000


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Four ranks on two hosts: rank 2 computes longer, host 1 is 250 us ahead; and the same without either."""
    late, good = (tmp_path_factory.mktemp(name) for name in ("late", "good"))
    delay = Delay("compute", LATE_NS, ranks=(2,))
    write(Plan(ranks_per_host=2, delays=(delay,), clocks={1: Clock(250_000)}), late)
    write(Plan(ranks_per_host=2), good)
    return str(late), str(good)


@pytest.fixture
def folder(folders: tuple[str, str]) -> Path:
    return Path(folders[0])


def test_the_document_is_what_its_schema_says(folder: Path) -> None:
    done = run("job", str(folder), "--json")
    answer = json.loads(done.out)
    jsonschema.validate(answer, msgspec.json.schema(document.JobDocument))
    assert list(answer) == list(document.JobDocument.__struct_fields__)
    assert [row["rank"] for row in answer["ranks"]] == [0, 1, 2, 3]
    assert answer["verdict"]["bound"] == "straggler"
    assert answer["job"]["steps"] == [2, 3, 4]


def test_chosen_ranks_and_steps(folder: Path) -> None:
    answer = json.loads(run("job", str(folder), "--ranks", "0-1", "--steps", "3", "--json").out)
    assert [row["rank"] for row in answer["ranks"]] == [0, 1]
    assert answer["job"]["steps"] == [3]
    text = run("job", str(folder), "--ranks", "0-1").out
    assert "2 of 4 ranks missing" in " ".join(text.split())


def test_a_damaged_file_costs_that_file(folder: Path, tmp_path: Path) -> None:
    here = tmp_path / "job"
    shutil.copytree(folder, here)
    first = sorted(here.iterdir())[0]
    first.write_bytes(b"\x1f\x8b not gzip")
    done = run("job", str(here))
    assert done.code == 0
    assert f"NOT READ   1 file: {first.name}" in done.out
    assert run("job", str(here), "--strict").code == 1


def test_one_rank_is_answered(folder: Path, tmp_path: Path) -> None:
    shutil.copy(sorted(folder.iterdir())[0], tmp_path)
    done = run("job", str(tmp_path))
    assert done.code == 0
    assert "WAITS UNKNOWN  one rank alone does not say who waits for whom" in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--timeline", "0", "--json"), 2, "add --html FILE or --perfetto FILE"),
        (("--timeline", "9"), 2, "no rank 9"),
        (("--ranks", "x"), 2, "--ranks"),
        (("--steps", "9-"), 2, "--steps"),
        (("--html", "/no/folder/job.html"), 2, "no folder"),
    ],
)
def test_wrong_usage_is_one_line(
    folder: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = run("job", str(folder), *arguments)
    assert done.code == code
    assert words in done.err
    assert done.err.count("\n") == 1


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    done = run("job", str(tmp_path))
    assert done.code == 3
    assert "contains no trace" in done.err


def test_look_at_ranks_names_the_command(folder: Path) -> None:
    assert f"foretrace job {folder}" in " ".join(run("look", str(folder)).out.split())


@pytest.mark.parametrize(
    "words", [("check", "A", "ranks.world == 4"), ("compare", "A", "A"), ("report", "A")]
)
def test_commands_about_jobs_read_on_ray(
    words: tuple[str, ...], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def there(files: Mapping[str, int], limits: Limits, cache: bool, address: str) -> Answers:
        asked.append(address)
        return local_answers(files, limits, cache)

    monkeypatch.setattr("foretrace.jobs.reading.ray_answers", there)
    given = [str(folder) if word == "A" else word for word in words]
    target = ["-o", str(tmp_path / "job.html")] if words[0] == "report" else []
    assert main([*given, *target, "--ray", "auto", "--no-cache"]) == 0
    assert asked == ["auto"] * words.count("A")


def test_ray_reads_no_single_trace(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [first, *_] = sorted(folder.iterdir())
    assert main(["check", str(first), "total.kernels == 1", "--ray", "auto"]) == 2
    assert "--ray reads a job" in capsys.readouterr().err


def test_predictions_about_a_job(folders: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text('[[prediction]]\ntext = "ranks.last == 2"\nreason = "its GPU is hot"\n')
    hits = ("ranks.world == 4", "hosts == 2", "ranks.slowest == 2", "bandwidth > 90 GB/s")
    done = run("check", folders[0], *hits, "--predictions", str(file), "--json")
    assert (done.code, json.loads(done.out)["hits"]) == (0, 5)
    missed = run("check", folders[0], "max(wait.time) < 1 us", "total.kernels == 5")
    assert missed.code == 2
    assert "MISS    max(wait.time) < 1 us" in missed.out
    assert run("check", folders[0], "ranks == 4", "--against", folders[1]).code == 0
    of_a_trace = run("check", folders[0], "total.kernels == 5")
    assert (of_a_trace.code, of_a_trace.out) == (2, "")
    assert "contains 4 traces" in of_a_trace.err


def test_two_jobs_compared(folders: tuple[str, str]) -> None:
    done = run("compare", *folders, "--json", "--fail-if", "step.time > a.step.time")
    answer = json.loads(done.out)
    jsonschema.validate(answer, msgspec.json.schema(compare.CompareJobsDocument))
    assert done.code == 0
    assert "ok  step.time > a.step.time: " in done.err
    assert answer["verdict"]["answer"] == "faster"
    assert abs(answer["verdict"]["saves_at_least_ns"] - LATE_NS) < 0.02 * LATE_NS
    assert (answer["last_a"]["rank"], answer["last_b"]) == (2, None)
    back = run("compare", *reversed(folders), "--fail-if", "step.time > a.step.time")
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
    done = run("report", folders[0], "-o", str(target), "--check", "ranks.last == 2")
    assert (done.code, done.out) == (0, f"{target}\n")
    assert "1 hit, 0 missed, 0 unknown" in target.read_text(encoding="utf-8")
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
