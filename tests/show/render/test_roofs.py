"""The roofs of a card as text, and where they come from."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest
from msgspec.structs import replace

from foretrace.cli import main
from foretrace.names import devices
from foretrace.schema.device import BandwidthPoint
from foretrace.schema.documents import encode, roofs
from foretrace.show.render.roofs_page import page as roofs_page
from foretrace.show.render.terminal import drawn, marked

H200 = devices.shown_roofs("h200")
MEASURED = replace(  # what `lab roofs` measures
    H200, latency=(), shared_gbps={}, launch_us={}, transfer_gbps={}, host_us={}, behind_gbps={}
)


def test_the_first_screen_has_the_roofs_and_the_curve() -> None:
    text = drawn(roofs_page(MEASURED, Path("/there/nvidia-h200.json"), every=False))
    lines = text.splitlines()
    assert lines[0].startswith("NVIDIA H200: torch 2.11.0")
    assert lines[1:3] == ["HBM           4.71 TB/s", "L2            8.93 TB/s"]
    assert "TENSOR CORES  bf16 894.3" in text
    assert ("latency" in text, "SHARED" in text) == (False, False)
    assert "wrote /there/nvidia-h200.json" in text
    assert len(lines) <= 25
    jsonschema.validate(json.loads(encode(MEASURED)), msgspec.json.schema(roofs.DOCUMENTS["roofs"]))


def test_recorded_figures_that_are_measured_no_more_are_shown() -> None:
    page = marked(roofs_page(H200, every=True))
    assert "| graph gap |" in page
    assert "| latency |" in page


def test_show_finds_a_file_or_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORETRACE_ROOFS", str(tmp_path))
    devices.save_roofs(MEASURED, tmp_path / "nvidia-h200.json")
    for name in ("h200", "NVIDIA H200", str(tmp_path / "nvidia-h200.json")):
        assert main(["lab", "roofs", "--show", name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["device"] == "NVIDIA H200"
    assert main(["lab", "roofs", "--show", "h300"]) == 2
    assert "no roofs of 'h300'" in capsys.readouterr().err
    assert main(["lab", "roofs", "--show", str(tmp_path / "none.json")]) == 2


def test_without_a_name_the_figures_of_this_machine_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORETRACE_ROOFS", str(tmp_path))
    assert main(["lab", "roofs", "--show"]) == 2
    assert "nothing was measured on this machine yet" in capsys.readouterr().err
    document = replace(
        MEASURED,
        device="A CPU",
        kind="cpu",
        bandwidth=(BandwidthPoint(1 << 20, 1.0, 2.0, 3.0),),
        tflops={"fp32": 0.01086, "bf16": 3.1e-05},
        units_tflops={},
        not_measured={"tensor_cores": "no CUDA GPU"},
    )
    devices.save_roofs(document, tmp_path / "a-cpu.json")
    assert main(["lab", "roofs", "--show"]) == 0
    out = capsys.readouterr().out
    assert "fp32 10.9 GFLOP/s, bf16 31.0 MFLOP/s" in out
    assert "tensor cores: no CUDA GPU" in out


def test_float32_is_not_on_tensor_cores(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "roofs", "--show", "h200"]) == 0
    lines = {line[:12].strip(): line for line in capsys.readouterr().out.splitlines()}
    assert "fp32" not in lines["TENSOR CORES"]
    assert "fp32 50.84" in lines["CUDA CORES"]
