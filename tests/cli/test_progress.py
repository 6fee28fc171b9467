"""Progress of a long read: on a terminal only, from half a second on, and gone at the end."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from corpus.places import RECORDED
from foretrace.base.errors import report
from foretrace.base.units import bytes_text
from foretrace.cli import _options

TRACE = RECORDED / "mlp_eager.json.gz"
CLEAR = "\r\x1b[K"
# as if half a second had passed
NOW = "from foretrace.cli import _options; _options.PATIENCE_S = _options.EVERY_S = 0; "


def on_a_terminal(*arguments: str) -> tuple[str, str]:
    """stdout through a pipe, and what a terminal gets on stderr."""
    ours, theirs = pty.openpty()
    code = f"{NOW}from foretrace.cli import main; raise SystemExit(main({list(arguments)!r}))"
    ran = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    seen = b""
    try:
        while block := os.read(ours, 1 << 16):
            seen += block
    except OSError:  # Linux: the other end is closed
        pass
    os.close(ours)
    assert ran.returncode == 0, seen
    return ran.stdout.decode(), seen.decode()


@pytest.mark.parametrize("command", ["look", "export", "check"])
def test_bytes_and_phases_are_shown_and_cleared(command: str) -> None:
    more = {"check": ["total.kernels > 0"], "export": ["--to", "csv"]}.get(command, [])
    out, seen = on_a_terminal(command, str(TRACE), "--no-cache", *more)
    size = bytes_text(TRACE.stat().st_size)
    assert f"reading {size} of {size}: " in seen
    assert "building the tables" in seen
    assert seen.endswith(CLEAR), "nothing stays on the terminal"
    assert "\x1b[K" not in out


def test_a_folder_counts_its_traces(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.json.gz").write_bytes(TRACE.read_bytes())
    _, seen = on_a_terminal("look", str(tmp_path), "--no-cache")
    assert "finding traces: " in seen
    assert "read 2 of 2: " in seen
    assert seen.endswith(CLEAR)


def test_a_short_read_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    line = _options.ProgressLine()
    line("reading")
    line("")
    assert capsys.readouterr().err == ""
    line.due = 0
    line("reading \x1b[31m")
    line("soon after")
    line("")
    assert capsys.readouterr().err == f"{CLEAR}reading \\x1b[31m{CLEAR}"


def test_nothing_listens_by_itself() -> None:
    report("reading")
    report()
