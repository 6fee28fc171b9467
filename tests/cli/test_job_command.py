"""`foretrace job`: forms, sections, chosen ranks and steps, and input that is bad."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import pytest

from analyze.jobs.plan import Clock, Delay, Plan, write
from corpus.opening import run
from foretrace.analyze.jobs.reading import Answers, local_answers
from foretrace.base.budget import Limits
from foretrace.cli import main
from foretrace.schema.documents import job as document
from foretrace.schema.documents import json_schema

LATE = Delay("compute", 900_000, ranks=(2,))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four ranks on two hosts: rank 2 computes longer, host 1 is 250 us ahead."""
    made = tmp_path_factory.mktemp("job")
    write(Plan(data=4, ranks_per_host=2, delays=(LATE,), clocks={1: Clock(250_000)}), made)
    return made


def test_the_first_screen_names_the_straggler(folder: Path) -> None:
    done = run("job", str(folder))
    assert done.code == 0
    assert done.out.count("\n") <= 25
    assert "STRAGGLER  rank 2" in done.out
    assert "its compute" in done.out
    assert "4 of 4 ranks" in done.out


def test_the_document_is_what_its_schema_says(folder: Path) -> None:
    done = run("job", str(folder), "--json")
    answer = json.loads(done.out)
    jsonschema.validate(answer, json_schema(document.DOCUMENT))
    assert list(answer) == list(document.DOCUMENT.__struct_fields__)
    assert [row["rank"] for row in answer["ranks"]] == [0, 1, 2, 3]
    assert answer["verdict"]["bound"] == "straggler"
    assert answer["job"]["steps"] == [2, 3, 4]


TITLES = {
    "--stragglers": "Ranks, by how long the others wait for them",
    "--exposed": "Overlap by group and collective",
    "--path": "Critical path through step",
    "--network": "Network",
    "--same": "Clocks, against the lowest rank",
}


def test_each_option_has_its_tables(folder: Path) -> None:
    every, as_markdown = (
        run("job", str(folder), "--all").out,
        run("job", str(folder), "--all", "--markdown").out,
    )
    for title in TITLES.values():
        assert f"\n{title}" in every
        assert f"## {title}" in as_markdown
    some = run("job", str(folder), "--path", "--same").out
    assert [option for option, title in TITLES.items() if title in some] == ["--path", "--same"]


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
    "words", [("check", "A", "-g", "world size == 4"), ("compare", "A", "A"), ("report", "A")]
)
def test_commands_about_jobs_read_on_ray(
    words: tuple[str, ...], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def there(files: Mapping[str, int], limits: Limits, cache: bool, address: str) -> Answers:
        asked.append(address)
        return local_answers(files, limits, cache)

    monkeypatch.setattr("foretrace.analyze.jobs.reading.ray_answers", there)
    given = [str(folder) if word == "A" else word for word in words]
    target = ["-o", str(tmp_path / "job.html")] if words[0] == "report" else []
    assert main([*given, *target, "--ray", "auto", "--no-cache"]) == 0
    assert asked == ["auto"] * words.count("A")


def test_ray_reads_no_single_trace(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [first, *_] = sorted(folder.iterdir())
    assert main(["check", str(first), "-g", "kernels == 1", "--ray", "auto"]) == 2
    assert "--ray reads a job" in capsys.readouterr().err
