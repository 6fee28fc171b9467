"""`make tour`, `make ladder` and `make test` on a bare machine: what they set up and run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")

# Stands for the environment's Python: writes down its arguments, and fails for what $FAILS names.
PYTHON = """#!/bin/sh
echo "$@" >> calls
case "$*" in *$FAILS*)
  echo "Looking in indexes"
  echo "ERROR: No matching distribution found for torch" >&2
  exit 1;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    return tmp_path


def made(checkout: Path, *words: str, fails: str = "nothing") -> tuple[str, list[str]]:
    (checkout / "calls").write_text("")
    around = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    } | {"FAILS": fails}
    done = subprocess.run(
        ["make", *words], cwd=checkout, env=around, capture_output=True, text=True, check=True
    )
    return done.stdout, (checkout / "calls").read_text().splitlines()


def test_the_ladder_sets_up_torch_once(checkout: Path) -> None:
    made(checkout, "tour")
    said, calls = made(checkout, "ladder", fails="requirements/ladder.txt")
    assert (
        said.splitlines()[-1]
        == "torch could not be installed: ERROR: No matching distribution found for torch"
    )
    assert calls[-1] == "-m foretrace lab ladder"
    # tried again, and nothing else; then never again
    assert made(checkout, "ladder")[1][0].endswith("requirements/ladder.txt")
    assert made(checkout, "ladder")[1] == ["-m foretrace lab ladder"]


def test_torch_is_one_version_everywhere() -> None:
    pinned = [
        line
        for file in (ROOT / "requirements").iterdir()
        for line in file.read_text().splitlines()
        if re.search(r"\btorch\b", line)
    ]
    assert [line for line in pinned if not line.startswith("#")] == ["torch==2.13.0"]


def _dry_run(target: str) -> str:
    words = ["make", "--dry-run", target]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_checks_hold_the_formatter_and_the_site() -> None:
    commands = _dry_run("test")
    for check in ("ruff format --quiet --check", "ruff check", "mypy", "lint-imports", "pytest"):
        assert f"bin/{check}" in commands or f"-m {check}" in commands
    assert "tools/site.py" in commands


def test_every_target_that_the_documentation_names_is_there() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    named = {name for page in pages for name in re.findall(r"`make ([\w-]+)`", page.read_text())}
    assert named >= {"lint", "pages"}
    for target in named:
        _dry_run(target)
