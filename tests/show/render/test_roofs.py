"""The document of `roofs` as text, and where it comes from."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

pytest.importorskip("torch")

from foretrace.cli import main
from foretrace.names import devices
from foretrace.record.experiments.roofs.measured_roofs import roofs_document
from foretrace.schema.device import MeasuredRoofs
from foretrace.schema.documents import encode, json_schema, roofs
from foretrace.show.render.roofs_page import page as roofs_page
from foretrace.show.render.terminal import drawn, marked

MIB = 1 << 20
FOUND = {
    "bandwidth": {
        f"{way} {size}": {"gbps": rate, "at": 1.0}
        for size, rates in {
            16 * MIB: (9421.6, 4785.0, 8571.0),
            1 << 30: (4660.3, 4389.1, 0),
        }.items()
        for way, rate in zip(("read", "write", "copy"), rates, strict=True)
        if rate
    }
    | {f"copy {1 << 30}": {"error": "RuntimeError: out of memory"}},
    "latency": {str(16 * MIB): {"load_ns": 147.41}, "65536": {"load_ns": 21.72}},
    "shared": {"read": {"gbps": 33337.7}, "latency": {"load_ns": 14.648}},
    "matmuls": {"bf16 4096": {"tflops": 774.61}, "bf16 8192": {"tflops": 696.7}},
    "tensor_cores": {"bf16": {"tflops": 894.3}},
    "launches": {"graph_gap": {"median_us": 0.5226}},
}


def _document() -> MeasuredRoofs:
    around = {"torch": "2.11.0", "driver": "580", "l2_bytes": str(60 * MIB)}
    return roofs_document(
        FOUND, around, device="NVIDIA H200", kind="gpu", not_here={"fma": "a GPU"}, seconds=20
    )


def test_figures_become_a_document() -> None:
    document = _document()
    assert [point.working_set_bytes for point in document.bandwidth] == [16 * MIB, 1 << 30]
    assert document.bandwidth[0].copy_gbps == 8571
    assert document.bandwidth[1].copy_gbps is None
    assert [point.load_ns for point in document.latency] == [21.72, 147.4]
    assert document.tflops == {"bf16": 774.6}  # the faster of two sizes
    assert (document.shared_gbps, document.shared_load_ns) == ({"read": 33340}, 14.65)
    assert document.not_measured == {
        "fma": "a GPU",
        f"bandwidth: copy {1 << 30}": "RuntimeError: out of memory",
    }
    jsonschema.validate(json.loads(encode(document)), json_schema(roofs.DOCUMENT))


def test_the_first_screen_has_the_roofs_and_the_curve() -> None:
    text = drawn(roofs_page(_document(), Path("/there/nvidia-h200.json"), every=False))
    assert text.splitlines()[:4] == [
        "NVIDIA H200: torch 2.11.0, driver 580, measured in 20 s",
        "HBM           4.66 TB/s",
        "L2            9.42 TB/s",
        "SHARED        33.3 TB/s",
    ]
    assert "TENSOR CORES  bf16 894.3 TFLOP/s" in text
    assert "16.8 MB  9.42 TB/s  ████████████████████████  4.79 TB/s  8.57 TB/s  147 ns" in " ".join(
        text.split("\n")
    ).replace("   ", "  ")
    assert "wrote /there/nvidia-h200.json" in text
    assert len(text.splitlines()) <= 25


def test_every_figure_is_in_the_page() -> None:
    page = marked(roofs_page(_document(), every=True))
    assert "graph gap | 0.5226" in page
    assert "out of memory" in page


def test_show_finds_a_file_or_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORETRACE_ROOFS", str(tmp_path))
    devices.save_roofs(_document(), tmp_path / "nvidia-h200.json")
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
    around = {"torch": "2.11.0"}
    found = {"matmuls": {"fp32": {"tflops": 0.01086}, "bf16": {"tflops": 3.1e-05}}}
    left = {"shared": "no CUDA GPU", "tensor_cores": "no CUDA GPU"}
    document = roofs_document(found, around, device="A CPU", kind="cpu", not_here=left, seconds=9)
    devices.save_roofs(document, tmp_path / "a-cpu.json")
    page = tmp_path / "roofs.html"
    assert main(["lab", "roofs", "--show", "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert "fp32 10.9 GFLOP/s, bf16 31.0 MFLOP/s" in out
    assert "shared memory, tensor cores: no CUDA GPU" in out
    assert "A CPU" in page.read_text()


def test_float32_is_not_on_tensor_cores(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "roofs", "--show", "h200"]) == 0
    lines = {line[:12].strip(): line for line in capsys.readouterr().out.splitlines()}
    assert "fp32" not in lines["TENSOR CORES"]
    assert "fp32 50.84" in lines["CUDA CORES"]
