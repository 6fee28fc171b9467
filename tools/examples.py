"""Run the examples of the documentation and write what they print into the pages.

A fenced block marked `console` holds commands after `$ ` and their output. The commands run in the
folder of recordings that ships with the package, or in the page's own in tests/recorded/pages, so
everybody gets the same output:

    python tools/examples.py            # rewrite the pages; a test fails when one is out of date
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from foretrace.read import recordings

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# the code of this checkout, whatever is installed; and the same output on every terminal
SETTINGS = {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "80", "NO_COLOR": "1"}
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def folder(page: Path) -> Path:
    """Where the examples of a page run."""
    recorded = ROOT / "tests" / "recorded"
    own = recorded if page.stem == "how-to-serving" else recorded / "pages" / page.stem
    return own if own.is_dir() else recordings.folder("h200")


def refreshed(page: str) -> str:
    """The page with the output of each of its examples as it is now."""
    return _BLOCK.sub(lambda block: f"```console\n{_rerun(block[1])}```", page)


def _rerun(block: str) -> str:
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"{line}\n{_output(line[2:])}" for line in commands)


def _output(command: str) -> str:
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            ["bash", "-c", f'foretrace() {{ "{sys.executable}" -m foretrace "$@"; }}\n{command}'],
            env={**os.environ, **SETTINGS, "FORETRACE_CACHE": cache},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


if __name__ == "__main__":
    for path in PAGES:
        os.chdir(folder(path))
        path.write_text(refreshed(path.read_text(encoding="utf-8")), encoding="utf-8")
