"""Take the pictures of the documentation with a headless Chromium: `python tools/pictures.py`.

`look.png` is the first screen of a terminal, `report.png` the report about two recordings.
"""

from __future__ import annotations

import html
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from foretrace import recordings

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
LINES = 25
TERMINAL = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: #1d2021; color: #ebdbb2; }}
pre {{ margin: 18px 22px; font: 15px/1.4 "DejaVu Sans Mono", monospace; }}
</style><pre><b>$ {command}</b>\n{output}</pre>"""


def main() -> None:
    """Write both pictures."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("no Chromium found: install it to take the pictures")
    eager, compiled = "mlp_eager.json.gz", "mlp_compiled.json.gz"
    with tempfile.TemporaryDirectory() as folder:
        page, report = Path(folder, "look.html"), Path(folder, "report.html")
        output = "\n".join(_foretrace("look", eager).splitlines()[:LINES])
        text = TERMINAL.format(command=f"foretrace look {eager}", output=html.escape(output))
        page.write_text(text, encoding="utf-8")
        _foretrace("report", eager, compiled, "-o", str(report))
        _shoot(browser, page, IMAGES / "look.png", "1000,600")
        _shoot(browser, report, IMAGES / "report.png", "1400,1357")


def _foretrace(*arguments: str) -> str:
    words = [sys.executable, "-m", "foretrace", *arguments]
    done = subprocess.run(
        words,
        cwd=recordings.folder("h200"),
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},  # whatever is installed
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def _shoot(browser: str, page: Path, picture: Path, size: str) -> None:
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    where = [f"--window-size={size}", f"--screenshot={picture}", page.as_uri()]
    subprocess.run(
        [browser, *options, "--virtual-time-budget=4000", *where], check=True, capture_output=True
    )


if __name__ == "__main__":
    main()
