"""A page is opened through a private file: no argument of any process holds its token."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from html import unescape
from pathlib import Path

import click
import pytest

from foretrace.cli._options import in_browser
from foretrace.read.recordings import traces

ADDRESS = "http://127.0.0.1:1/token&<x>/"


def test_the_file_is_private_and_leads_to_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(click, "launch", lambda given: opened.append(Path(given)) or 0)
    with in_browser(ADDRESS, wanted=True):
        (page,) = opened
        assert page.stat().st_mode & 0o777 == 0o600
        assert page.parent.stat().st_mode & 0o777 == 0o700
        text = page.read_text()
        assert re.findall(r'content="0; url=([^"]*)"', text)[0].count("<") == 0
        assert unescape(text).count(ADDRESS) == 2
        assert 'name="referrer" content="no-referrer"' in text
    assert list(tmp_path.iterdir()) == []
    with in_browser(ADDRESS, wanted=False):
        assert len(opened) == 1


def test_without_a_browser_the_address_is_enough(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(click, "launch", lambda given: 1)
    with in_browser(ADDRESS, wanted=True):
        assert "open the address above" in capsys.readouterr().err


BROWSER = """#!/bin/sh
echo "$@" > {told}.part
env >> {told}.part
mv {told}.part {told}
"""


@pytest.mark.parametrize("command", [["serve"], ["export", "--to", "perfetto"]], ids=" ".join)
def test_the_token_is_in_no_argument_and_no_environment(command: list[str], tmp_path: Path) -> None:
    """The URL with its token is not visible in the process list."""
    if command == ["serve"]:
        pytest.importorskip("starlette", reason="needs foretrace[serve]")
    (tmp_path / "private").mkdir()
    opener, told = tmp_path / "xdg-open", tmp_path / "told"
    opener.write_text(BROWSER.format(told=told))
    opener.chmod(0o755)
    places = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path / "private")}
    program = [sys.executable, "-m", "foretrace", *command, str(traces()["mlp_eager"])]
    with subprocess.Popen(
        program, env=os.environ | places, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as running:
        assert running.stdout is not None
        said = running.stdout.readline().decode()
        token = said.split("127.0.0.1:")[1].split("/")[1]
        assert len(token) == 32
        for _ in range(2400):
            if told.exists():
                break
            time.sleep(0.05)
        assert token not in told.read_text()
        page = Path(told.read_text().splitlines()[0])
        assert page.is_relative_to(tmp_path / "private")
        assert token in page.read_text()
        running.send_signal(signal.SIGINT)
        assert running.wait(30) in (0, 130)
    assert list((tmp_path / "private").iterdir()) == []
