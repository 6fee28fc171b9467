"""Predictions about memory on snapshots of an H200: alone, and beside a trace."""

from __future__ import annotations

import lzma
import shutil
from pathlib import Path

import pytest

import foretrace as ft
from foretrace.cli import main
from foretrace.read.recordings import snapshots

RECORDED = Path(__file__).parents[1] / "recorded"
LEAK = snapshots()["gpt_leak"]
TRACE = RECORDED / "sgd_fused.json.gz"  # without memory events


def marked(path: Path, *guesses: str) -> list[tuple[str, str]]:
    return [(each.verdict, each.measured or each.why) for each in ft.check(path, guesses)]


def test_a_leak_grows_from_step_to_step() -> None:
    assert marked(LEAK, "no growth from step 2 to step 7", "no growth") == [
        ("miss", "1.08 GB after step 2, 1.75 GB after step 7"),
        ("miss", "1.08 GB after step 2, 1.88 GB after step 8"),
    ]
    (steady,) = marked(RECORDED / "memory" / "train.pickle.xz", "no growth from step 2 to step 4")
    assert steady[0] == "hit"


@pytest.mark.parametrize(
    ("guess", "verdict", "said"),
    [
        ("peak memory < 3 GB", "hit", "2.38 GB"),
        ("peak reserved memory < 2 GB", "miss", "2.43 GB"),
        ("activations < 1 GB", "hit", "596.3 MB of 2.38 GB at the peak"),
        ("optimizer state < 300 MB", "miss", "335.8 MB of 2.38 GB at the peak"),
        ("no growth from step 2 to step 90", "unknown", "the snapshot has 8 whole steps"),
        ("kernels == 5", "unknown", "memory alone"),
        ("per step: activations < 1 GB", "unknown", "memory alone"),
        ("activations < 1 furlong", "error", "furlong"),
    ],
)
def test_what_a_snapshot_decides(guess: str, verdict: str, said: str) -> None:
    ((found, measured),) = marked(LEAK, guess)
    assert found == verdict
    assert said in measured


def test_a_snapshot_beside_a_trace_decides(tmp_path: Path) -> None:
    trace = Path(shutil.copy(TRACE, tmp_path / "run.json.gz"))
    guesses = ("gradients < 1 GB", "peak memory < 3 GB", "no growth", "kernels > 0")
    assert [found for found, _ in marked(trace, *guesses)] == ["unknown"] * 3 + ["hit"]
    (tmp_path / "run.memory.pickle").write_bytes(lzma.decompress(LEAK.read_bytes()))
    assert [found for found, _ in marked(trace, *guesses)] == ["hit", "hit", "miss", "hit"]
    (tmp_path / "run.memory.pickle").write_bytes(b"not a pickle")
    assert [found for found, _ in marked(trace, *guesses)] == ["unknown"] * 3 + ["hit"]


def test_the_command_has_the_exit_codes_of_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(LEAK), "-g", "peak memory < 3 GB"]) == 0
    assert main(["check", str(LEAK), "-g", "no growth"]) == 1
    assert main(["check", str(LEAK), "-g", "kernels == 5", "--need-data"]) == 1
    assert main(["check", str(LEAK), "-g", "nonsense"]) == 2
    assert "1 guess: 0 hit, 1 missed" in capsys.readouterr().out
