"""Another package adds a kind of prediction and a reason through entry points."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from check.conftest import H200

MODULE = """
from foretrace.check.kinds import GuessKind, Measurement, per_window
from foretrace.check.kinds import Reason

def measure(window, query):
    rows = window.rows.tolist()
    return Measurement("miss" if len(rows) % 2 else "hit", f"{len(rows)} rows", rows=rows)

KIND = GuessKind("even", 5, ("an even number of rows",), per_window(measure))
REASON = Reason("odd", lambda miss: miss.kind == "even", "an even number", "Odd day.", "here")
FAILING = Reason("failing", lambda miss: 1 / 0, "kernels == 4", "Never given.", "nowhere")
"""
ENTRY_POINTS = """
[foretrace.guesses]
even = their_guesses:KIND
[foretrace.reasons]
odd = their_guesses:REASON
failing = their_guesses:FAILING
"""


def test_a_kind_and_a_reason_of_another_package(tmp_path: Path) -> None:
    (tmp_path / "their_guesses.py").write_text(MODULE)
    info = tmp_path / "their_guesses-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-guesses\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    texts = ["per step: an even number of rows"]
    texts += ["in mlp_fwd: kernels == 5", "in mlp_fwd: kernels == 4"]
    arguments = ["check", str(H200 / "mlp_eager.json.gz"), "--no-cache"]
    arguments += [part for text in texts for part in ("-g", text)]
    found = subprocess.run(
        [sys.executable, "-m", "foretrace", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 1, found.stderr
    first, second = found.stdout.split("hit     in mlp_fwd: kernels == 5\n")
    assert "MISS    per step: an even number of rows\n" in first
    assert "measured 7 rows in each of 3 steps" in first
    assert "why: Odd day." in first
    assert "MISS    in mlp_fwd: kernels == 4\n" in second
    assert "why:" not in second  # a reason that fails is not given, and hides no verdict
