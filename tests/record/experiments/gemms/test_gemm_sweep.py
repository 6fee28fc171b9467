"""The sweep of a card, with a card that is made up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from foretrace.cli import main
from foretrace.names.gemms import table
from foretrace.record.experiments.gemms import sweep
from foretrace.schema.gemm_point import GemmPoint

KERNEL = "nvjet_sm90_tst_128x128_64x6_1x1_h_bz_TNT"


def _recorded(batch: Sequence[GemmPoint], _: Any) -> list[dict[str, Any]]:
    return [_row(point) for point in batch]


def _row(point: GemmPoint) -> dict[str, Any]:
    if point.dtype == "fp8":
        return {**point._asdict(), "error": "RuntimeError: refused"}
    us = 2 + point.flops / 5e8
    run = {"name": KERNEL, "grid": [1, 132, 1], "block": [384, 1, 1], "registers": 168}
    kernel = {**run, "shared_memory": 200_000, "cold_us": us, "warm_us": us}
    return {**point._asdict(), "kernels": [kernel], "cold_us": [us], "warm_us": [us]}


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    around = {"gpu": "NVIDIA H200", "sms": "132", "torch": "2.11", "measured": "2026-11-16"}
    fakes = {
        "BATCH": 16,
        "OperandPools": lambda count: count,
        "elements": len,
        "recorded": _recorded,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(sweep.measure, name, fake)
    monkeypatch.setattr(sweep, "environment", lambda: around)
    monkeypatch.setattr(sweep.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(sweep.torch.cuda, "get_device_name", lambda: "NVIDIA H200")


def test_a_sweep_becomes_a_map_that_every_command_reads(
    card: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "new" / "my.parquet"
    assert main(["lab", "gemms", "-o", str(place), "--most", "60", "--json"]) == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert document["written"] == str(place)
    assert "sweep: 60 of 60 matmuls" in said.err
    found = table.opened(place)
    assert 40 <= found.frame.height <= 60
    assert set(found.frame["kernel"]) == {KERNEL}
    assert found.heldout is not None
    assert found.facts.bytes_per_s < 4.8e12  # measured, not the datasheet
    assert (place.parent / "my.sweep.jsonl.gz").is_file()
    point = next(iter(found.rows))
    assert (
        main(["lab", "gemms", "--show", str(place), "--near", point.size, "--dtype", point.dtype])
        == 0
    )


def test_chosen_matmuls_alone_become_a_map(
    card: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen, place = tmp_path / "model.txt", tmp_path / "my.parquet"
    chosen.write_text("7x64x64 nn fp32\n8x64x64 nn fp32 bias\n")
    assert main(["lab", "gemms", "-o", str(place), "--points", str(chosen)]) == 0
    assert "NVIDIA H200: 2 matmuls" in capsys.readouterr().out
    assert table.opened(place).heldout is None
    assert (
        main(["lab", "gemms", "--show", str(place), "--predict", "9x64x64", "--dtype", "fp32"]) == 0
    )
    assert main(["lab", "gemms", "--show", str(place), "--accuracy", "--layout", "nn"]) == 2
    chosen.write_text("16x64x64 fp8")
    assert main(["lab", "gemms", "-o", str(place), "--points", str(chosen)]) == 2
    assert "the library refused every matmul" in capsys.readouterr().err


def test_a_live_card_runs_the_matmul(card: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "gemms", "--predict", "8192x768x3072", "--json"]) == 0
    live = json.loads(capsys.readouterr().out)["predict"]["live"]
    assert live["family_right"]
    assert live["us"] == pytest.approx(2 + 38_654_705_664 / 5e8, rel=1e-6)
    assert live["verdict"] == "miss"


def test_another_card_marks_nothing(card: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep.torch.cuda, "get_device_name", lambda: "NVIDIA H100")
    found = table.named("h200")
    live, why = sweep.marked(found, GemmPoint(1, 64, 64), "nvjet", 2.0)
    assert live is None
    assert why == "this GPU is an NVIDIA H100, the map is of an NVIDIA H200"


def test_a_card_without_peaks_is_refused_before_the_sweep(
    card: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sweep, "environment", lambda: {"gpu": "NVIDIA X900", "sms": "999"})
    assert main(["lab", "gemms"]) == 2
    assert "NVIDIA X900: its peaks are unknown" in capsys.readouterr().err
