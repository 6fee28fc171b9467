"""`foretrace tour`: it asks before it tells at a terminal, and tells at once elsewhere."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from foretrace.cli import main, tour
from foretrace.learn.ladder import climb

QUICK = climb.climb_recorded("h200", ("linear",))


def test_without_a_terminal_it_tells_at_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "new" / "tour.html"
    assert main(["tour", "--no-cache", "-o", str(out)]) == 0
    assert not (tmp_path / "cache").exists()
    text = capsys.readouterr().out
    places = [
        text.index(part)
        for part in ("It is 2.", "It is 1.", "It is 4.", "DO FIRST", "FASTER", "The articles")
    ]
    assert places == sorted(places)
    assert "hit" not in text.split("$ foretrace look")[0]
    assert re.search(r"\d+ predictions of \d+ claims: \d+ hold", text)
    assert f"The report on both: {out}" in text
    assert out.stat().st_size > 50_000
    assert len(text.splitlines()) <= 80


def test_a_part_that_cannot_run_is_left_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(climb, "climb_recorded", lambda card, only=(): QUICK)
    (tmp_path / "file").write_text("")
    assert main(["tour", "-o", str(tmp_path / "file" / "tour.html")]) == 0
    assert "The report is left out: " in capsys.readouterr().out


def test_a_card_without_recordings_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tour", "--card", "b300"]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)


def test_who_wants_no_questions_is_told_at_a_terminal_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr(tour, "_part", lambda name, text: None)
    assert main(["tour", "--no-ask"]) == 0
    text = capsys.readouterr().out
    assert "It is 2." in text
    assert "? hint" not in text


def at_a_terminal(tmp_path: Path, *typed: str) -> str:
    """The tour in a pseudo-terminal: each answer is typed at its prompt."""
    ours, theirs = pty.openpty()
    out = str(tmp_path / "tour.html")
    command = [sys.executable, "-m", "foretrace", "tour", "--no-cache", "-o", out]
    shown, answers, around = b"", iter(typed), {**os.environ, "NO_COLOR": "1"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=around) as done:
        os.close(theirs)
        with suppress(OSError):  # the terminal closes with the process
            while block := os.read(ours, 65536):
                shown += block
                if shown.endswith(b"> "):
                    os.write(ours, f"{next(answers, 'q')}\n".encode())
    os.close(ours)
    assert done.returncode == 0
    return shown.decode().replace("\r\n", "\n")


def test_at_a_terminal_it_asks_before_it_tells(tmp_path: Path) -> None:
    text = at_a_terminal(tmp_path, "1", "?", "1", "q")
    asked, told = text.split("1 of 2 right")
    assert asked.index("How many kernels") < asked.index("MISS  Not 1. Eager PyTorch")
    assert "Which of the three has to read" in asked
    assert "hit  It is 1." in asked
    assert "DO FIRST" not in asked
    assert "It is 4." not in text
    assert told.index("DO FIRST") < told.index("Next:")
