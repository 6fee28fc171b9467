"""The benchmark without a GPU: what it computes, what it keeps, how it is drawn, what it says when
there is no card.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")


from foretrace.base.errors import MissingError, UsageError
from foretrace.cli import main
from foretrace.kernels.bench import contenders, subjects
from foretrace.kernels.bench.run import error, in_new_process
from foretrace.record.lab_documents import BenchDocument, BenchRow, ContenderTimes
from foretrace.record.lab_lines import bench_text


def _timing(device: float, call: float) -> ContenderTimes:
    return ContenderTimes(device, device - 1, device + 1, call, call - 1, call + 1, 1e-3, 2.0)


def _results() -> BenchDocument:
    row = BenchRow(
        "MLP forward", 16, 8, 32, "bfloat16", 6 * 16 * 8 * 32, 1000, "library",
        {"eager": _timing(30, 60), "compiled": _timing(24, 80), "ours": _timing(20, 40)},
        {"liger": "not installed"},
    )  # fmt: skip
    return BenchDocument(
        1, "foretrace lab bench mlp", {"card": "Some Card"}, 4.0, 700.0, 1.5, (row,)
    )


def test_gains_are_against_the_best_peer() -> None:
    (row,) = _results().rows
    assert row.best_peer("device") == "compiled"
    assert row.best_peer("call") == "eager"
    assert row.gain("device") == 1.2
    assert row.gain("call") == 1.5
    assert row.size == "16x8x32"


def test_the_table() -> None:
    text = bench_text(_results())
    assert "1.200 1.500" in text
    assert "not installed" in text


def test_the_worst_result_counts_and_nan_never_passes() -> None:
    right = torch.ones(4).double()
    assert error((right, right * 2), (right, right)) == 1.0
    assert error((right * float("nan"),), (right,)) == float("inf")


def test_a_row_runs_in_a_process_of_its_own() -> None:
    assert in_new_process(os.getpid) != os.getpid()
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        in_new_process(lambda: 1 // 0)
    with pytest.raises(MissingError, match="ended with code 3"):
        in_new_process(lambda: os._exit(3))


def test_subjects_compute_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        subjects,
        "_random",
        lambda *shapes, dtype: tuple(torch.randn(s, dtype=dtype) for s in shapes),
    )
    size = (3, 8, 16)
    for subject in (
        subjects.glu(3, 16, torch.float32),
        subjects.glu(3, 16, torch.float32, trains=True),
        subjects.gate_up(size, torch.float32),
        subjects.mlp(size, torch.float32),
        subjects.mlp(size, torch.float32, trains=True),
    ):
        inputs = subject.inputs()
        truth = subject.truth(inputs)
        eager = contenders.call_for("eager", subject, inputs)()
        assert error(eager, truth) < 1e-5
        assert all(out.dtype == torch.float64 for out in truth)


def test_sizes() -> None:
    assert subjects.parse_size("8192x768x3072") == (8192, 768, 3072)
    for text in ("8192", "0x3", "axb", "1x2", "0x1x1", "1x2x3x4"):
        with pytest.raises(UsageError, match="is not a size"):
            subjects.parse_size(text)
    assert len(subjects.FURTHER) == 12


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["lab", "bench", "mlp", "--size", "8x8"], 2),
        (["lab", "bench", "geglu", "--size", "8x8x8"], 2),
        (["lab", "bench", "geglu", "--contender", "nobody"], 2),
        pytest.param(
            ["lab", "bench", "mlp"],
            4,
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here"),
        ),
        pytest.param(
            ["lab", "bench", "tune", "8x8x8"],
            4,
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="GPU"),
        ),
    ],
)
def test_exit_codes(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == code
    assert "Traceback" not in capsys.readouterr().err


def _outlive(marker: Path) -> None:
    time.sleep(5)
    marker.touch()


def test_a_row_does_not_wait_for_what_a_peer_left_running(tmp_path: Path) -> None:
    marker = tmp_path / "outlived"

    def work() -> int:
        multiprocessing.get_context("fork").Process(target=_outlive, args=(marker,)).start()
        return 7

    assert in_new_process(work) == 7
    assert not marker.exists()
