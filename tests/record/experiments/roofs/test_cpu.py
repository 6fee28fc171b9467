"""The figures of a CPU, on small working sets: what is measured, never how fast."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
from foretrace.cli import main
from foretrace.record.experiments import roofs
from foretrace.record.experiments.roofs import measured

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FORETRACE_ROOFS", str(tmp_path))
    for name, value in {
        "LARGEST": 1 << 20, "ALL_CORES": 1 << 16, "MOVED": 1 << 16, "REPEATS": 1,
        "LARGEST_MATMUL": 64,
    }.items():  # fmt: skip
        monkeypatch.setattr(roofs, name, value)


def test_a_cpu_is_measured_and_says_what_it_cannot(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["lab", "roofs", "--device", "cpu", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["kind"] == "cpu"
    assert [point["working_set_bytes"] for point in answer["bandwidth"]] == [
        1 << 18,
        1 << 19,
        1 << 20,
    ]
    ways = ("read_gbps", "write_gbps", "copy_gbps")
    assert all(point[way] > 0 for point in answer["bandwidth"] for way in ways)
    assert set(answer["all_cores_gbps"]) == {"read", "write", "copy"}
    assert set(answer["tflops"]) == {"fp32", "bf16"}
    assert answer["not_measured"]["first caches"] == "a call of NumPy takes too long"
    assert answer["not_measured"]["tensor_cores"] == "no CUDA GPU"
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_a_failure_costs_one_figure() -> None:
    def fails() -> float:
        raise RuntimeError("no room")

    figures = [("a", "x", fails), ("a", "y", lambda: 1.23456)]
    assert measured(figures, lambda _: None, 9) == (
        {"a": {"y": 1.235}},
        {"a: x": "RuntimeError: no room"},
    )
    assert measured(figures, lambda _: None, -1)[1]["a: y"] == "no time was left"


def test_there_is_no_gpu_to_measure(capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    assert main(["lab", "roofs", "--device", "cuda"]) == 4
    assert "no CUDA GPU" in capsys.readouterr().err
