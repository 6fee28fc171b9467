"""Take the pictures of reports about recordings: `python tools/pictures.py`.

It needs a Chromium.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from foretrace.read import recordings

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
# what each picture shows, and the size of its window
PICTURES = {
    "report.png": (["mlp_eager.json.gz", "mlp_compiled.json.gz"], "1440,1100"),
    "answers.png": (["llama_train_eager.json.gz"], "1440,900"),
}


def main() -> None:
    """Write each report, then its picture."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("no Chromium found: install it to take the picture")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    for name, (traces, size) in PICTURES.items():
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder, "report.html")
            _write_report(report, traces)
            shot = [f"--window-size={size}", f"--screenshot={IMAGES / name}", report.as_uri()]
            words = [browser, *options, "--virtual-time-budget=4000", *shot]
            subprocess.run(words, check=True, capture_output=True)


def _write_report(path: Path, traces: list[str]) -> None:
    subprocess.run(
        [sys.executable, "-m", "foretrace", "report", *traces, "-o", str(path)],
        cwd=recordings.folder("h200"),
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},  # not what is installed
        check=True,
        capture_output=True,
    )


if __name__ == "__main__":
    main()
