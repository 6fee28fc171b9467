"""Every figure of the articles has a view: the commands of docs/figures.md run as they stand."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from foretrace.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "figures.md"
# the climbs are those of tests/learn/ladder/test_climb.py, the report that of tests/show/html
RUNS = r"^\|.*`(foretrace (?!ladder|report)[^`]+)`"
COMMANDS = re.findall(RUNS, PAGE.read_text("utf-8"), re.MULTILINE)


def test_the_page_has_a_view_for_every_figure() -> None:
    assert len(COMMANDS) > 25


@pytest.mark.parametrize("command", dict.fromkeys(COMMANDS))
def test_the_view_can_be_seen(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command)[1:]
    assert main([*words, *([] if words[0] == "name" else ["--no-cache"])]) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) > 1
    assert captured.err == ""
