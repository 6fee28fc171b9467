"""`foretrace lesson` at a terminal and in a pipe: keys, progress, the document."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import jsonschema
import msgspec
import pytest

from foretrace.cli import main
from foretrace.learn.lessons.documents import LessonDocument
from foretrace.learn.lessons.sitting import read_progress


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "foretrace" / "lessons.json"


def play(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: str,
    *options: str,
) -> tuple[str, str]:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert main(["lesson", "1", "--no-cache", *options]) == 0
    out, err = capsys.readouterr()
    return out, err


def test_the_keys(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = play(monkeypatch, capsys, "?\n\nnonsense\n" + 28 * "9" + "\ns\nb\n2\nq\n")
    assert "Count the ops that compute" in out
    assert out.count("is not an answer: enter a number\n") == 1
    assert "is not an answer: enter a number of at most 15 digits" in out
    assert out.count("How many kernels does one call") == 2
    assert "hit  It is 2." in out
    again, _ = play(monkeypatch, capsys, "2\nb\nq\n", "--again")  # a choice takes no letter
    assert again.count("How many kernels does one call") == 2


def test_the_next_sitting_goes_on_where_the_last_one_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], state: Path
) -> None:
    play(monkeypatch, capsys, "2\n")
    assert read_progress().lessons["matmul_add"].answers == ["2"]
    assert [path.name for path in state.parent.iterdir()] == ["lessons.json"]
    assert main(["lesson", "--list"]) == 0
    assert "at question 2" in capsys.readouterr().out
    out, _ = play(monkeypatch, capsys, "less than 10%\n")
    assert "How many kernels" not in out
    program = "y = torch.add(torch.matmul(x, w), b)"
    assert program in out  # no earlier question of this sitting shows it
    out, _ = play(monkeypatch, capsys, "Tensor cores\n")
    assert f"{program}\n    # then the same line of code, but" in out
    assert "hit  It is 3: the tensor cores." in out
    out, _ = play(monkeypatch, capsys, "", "--again")
    assert "How many kernels" in out


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"lessons": 3}', b'{"lessons": {"matmul_add": 1}}']
)
def test_progress_that_cannot_be_read_costs_nothing_but_a_line(
    content: bytes,
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    state.parent.mkdir()
    state.write_bytes(content)
    out, _ = play(monkeypatch, capsys, "2\n")
    assert "hit  It is 2." in out
    assert read_progress().lessons["matmul_add"].hits == 1


def test_the_document_matches_its_schema(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = play(monkeypatch, capsys, "2\ns\n1\nq\n", "--json")
    answer = json.loads(out)
    jsonschema.validate(answer, msgspec.json.schema(LessonDocument))
    assert (answer["hits"], answer["misses"], answer["skipped"]) == (1, 1, 1)
    assert answer["steps"][1]["marked"] is None
    assert "How many kernels" in err


def test_ctrl_c_at_the_prompt_ends_the_sitting_at_once() -> None:
    """Polars has SIGINT restart a read, and the reader's timer must not meet Ctrl+C halfway."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "foretrace", "lesson", "1", "--no-cache"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as running:
        os.close(theirs)
        shown = b""
        while not shown.endswith(b"> "):
            shown += os.read(ours, 65536)
        try:
            for _ in range(5):  # on a busy machine one may come before the prompt is read
                time.sleep(0.2)
                running.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    assert running.wait(5) == 0
                    break
        finally:
            running.kill()
    assert b"0 of 0 right" in os.read(ours, 65536)
    os.close(ours)


def test_without_a_number_the_lessons_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lesson"]) == 0
    assert "One matmul and one addition" in capsys.readouterr().out
    assert main(["lesson", "--list", "--json"]) == 0
    first, *rest = json.loads(capsys.readouterr().out)["lessons"]
    assert (first["number"], first["name"], first["questions"]) == (1, "matmul_add", 4)
    assert len(rest) == 12
    for wrong in (["-"], ["1", "--html", "t.html", "--json"], ["99"]):
        assert main(["lesson", *wrong]) == 2
    assert "choose from" in capsys.readouterr().err
