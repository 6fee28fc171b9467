"""Jobs that are not as they should be cost what is wrong with them, never the rest of the answer."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from analyze.jobs.plan.damage import PLAN, SPOILED
from analyze.jobs.plan.write import write
from corpus.places import FULL_SWEEP
from foretrace.cli import main
from foretrace.schema.documents.job import JobDocument

# what jobs suffer most, and a sample of the rest
ALWAYS = ("one rank", "a rank is double", "a file is cut", "another world size", "two jobs")
OFTEN = ("a collective that some recorded", "no step in common", "times that are no numbers")
REST = [name for name in SPOILED if name not in ALWAYS + OFTEN]
TRIED = [*ALWAYS, *OFTEN, *(REST if FULL_SWEEP else REST[::6])]
LEFT_OUT = {"a file is damaged", "a file is empty", "a pipe", "other files", "links"}


def answered(folder: Path, capsys: pytest.CaptureFixture[str]) -> JobDocument:
    assert main(["job", str(folder), "--json", "--no-cache"]) == 0
    out, errors = capsys.readouterr()
    assert "Traceback" not in errors
    return msgspec.json.decode(out, type=JobDocument)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", TRIED)
def test_the_rest_is_answered(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    SPOILED[name](tmp_path)
    document = answered(tmp_path, capsys)
    assert document.job.ranks >= 1
    assert document.verdict.text
    assert bool(document.left_out) or name not in LEFT_OUT
    for each in document.ranks:
        times = (each.wall_ns, each.compute_ns, each.exposed_ns, each.idle_ns, each.wait_ns)
        assert all(time is None or 0 <= time < 2**62 for time in times)


@pytest.mark.parametrize("name", ["a name of control characters", "a group with a strange name"])
def test_no_control_character_reaches_the_terminal(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    SPOILED[name](tmp_path)
    assert main(["job", str(tmp_path), "--no-cache", "--all"]) == 0
    out, errors = capsys.readouterr()
    assert "\x1b" not in out + errors
    assert "\x07" not in out + errors


def test_a_folder_without_traces_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["job", str(tmp_path)]) == 3
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("place", ["/no/such/folder", "s3://", "nosuch://bucket/run"])
def test_a_place_that_does_not_exist(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", place]) in (2, 3, 4)
    assert capsys.readouterr().err.count("\n") <= 2


@pytest.mark.parametrize("ranks", ["", "5-2", "0-99999999999", "7"])
def test_ranks_that_make_no_sense(
    ranks: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(PLAN, tmp_path)
    code = main(["job", str(tmp_path), "--ranks", ranks, "--no-cache"])
    assert code in (2, 3)
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("steps", ["x", "77"])
def test_steps_that_make_no_sense(
    steps: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(PLAN, tmp_path)
    assert main(["job", str(tmp_path), "--steps", steps, "--no-cache"]) in (2, 3)
    assert capsys.readouterr().err.count("\n") == 1
