"""`foretrace lab gemms`: what it prints, and what it refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from foretrace.cli import main
from foretrace.names.gemms import table


@pytest.fixture(autouse=True)
def screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["lab", "gemms", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_map_fits_on_a_screen_and_states_its_accuracy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = _run(capsys, "--show", "h200")
    assert code == 0
    assert len(out.splitlines()) <= 25
    assert "on 420 held-out matmuls: family right on 95.2%" in out
    assert "8192+" in out
    assert "more: --near MxNxK, --predict MxNxK, --accuracy" in out
    _, out, _ = _run(capsys, "--show", "h200", "--all")
    assert "Predictions of matmuls that the map does not hold" in out


def test_the_accuracy_of_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, "--accuracy")
    assert code == 0
    kinds = [line.split("  ")[1] for line in out.splitlines()[3:]]
    assert kinds == ["16-bit and fp8, aligned", "16-bit, not aligned", "tf32", "fp32", "all"]
    _, out, _ = _run(capsys, "--predict", "100x4096x4095", "--dtype", "fp32")
    assert "held-out matmuls of this kind (fp32)" in " ".join(out.split())
    _, out, _ = _run(capsys, "--predict", "4096x4096x4096")
    assert "held-out" not in out  # measured: nothing is predicted


def test_a_prediction_states_its_distance_and_its_interval(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, out, _ = _run(capsys, "--predict", "5000x4096x4096")
    assert "213 us predicted, 210 us to 241 us nine times of ten" in out
    assert "DISTANCE    the nearest measured matmul is 0.3 octaves away" in out
    code, out, _ = _run(capsys, "--predict", "1000000x1000000x64")
    assert code == 0
    assert "INCONCLUSIVE  the nearest measured matmul is 13.8" in out
    _, out, _ = _run(capsys, "--predict", "1024x64x32", "--epilogue", "bias")
    assert "INCONCLUSIVE  the nearest measured matmul is 5.6 octaves away" in out
    assert "HELD OUT" not in out  # how often near ones are right says nothing about a far one
    assert "octaves away: too far to predict a kernel or a time" in " ".join(out.split())


def test_near_explains_on_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, "--near", "8192x768x3072")
    assert code == 0
    assert len(out.splitlines()) <= 25
    assert "nvjet 192x128x64 tn bf16, cluster 1x2, 5 stages" in out
    _, out, _ = _run(capsys, "--near", "8192x768x3072", "--all")
    assert "As M grows" in out
    assert "192x128 (chosen)" in out


def test_json_has_what_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    near = json.loads(_run(capsys, "--near", "8192x3072x768", "--json")[1])["near"]
    assert (near["exact"], near["found"]["tile"], near["partner"]["tile"]) == (
        True,
        "256x128",
        "192x128",
    )
    guess = json.loads(_run(capsys, "--predict", "5000x4096x4096", "--json")[1])
    assert guess["predict"]["family"] == "nvjet"
    assert not guess["predict"]["inconclusive"]
    assert guess["predict"]["low_us"] <= guess["predict"]["us"] <= guess["predict"]["high_us"]
    assert guess["accuracy"]["matmuls"] == 420
    shown = json.loads(_run(capsys, "--show", "h200", "--dtype", "fp8", "--json")[1])
    assert shown["heat"]["dtype"] == "fp8"


def test_a_prediction_needs_no_torch(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "foretrace.record.experiments.gemms.sweep", None)
    code, out, _ = _run(capsys, "--predict", "5000x4096x4096")
    assert code == 0
    assert "NOT MARKED  torch is not installed" in out


def test_markdown_and_the_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "map.html"
    _, out, _ = _run(capsys, "--show", "h200", "--markdown", "--html", str(page))
    assert out.startswith("## NVIDIA H200: 17,341 matmuls")
    text = page.read_text()
    assert 'class:"plane"' in text
    assert '"roof_percent"' in text


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--near", "8192"], "is no size: give MxNxK"),
        (["--near", "1x1x1", "--predict", "1x1x1"], "choose one of --near and --predict"),
        (["--near", "1x1x1", "--show", "a100"], "no map of 'a100'"),
        (["--show", "h200", "--dtype", "fp8", "--layout", "nt"], "the map has no matmul fp8 nt"),
        (["--points", "none.txt"], "none.txt: not a list of matmuls"),
        (["--near", "1x1x1", "--dtype", "int4"], "Invalid value for '--dtype'"),
    ],
)
def test_what_is_wrong_is_one_line(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = _run(capsys, *words)
    assert (code, out) == (2, "")
    assert why in err
    assert len(err.splitlines()) == 1


def test_without_a_card_a_few_matmuls_of_the_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    code, out, _ = _run(capsys, "--device", "cpu", "--most", "2", "--json")
    assert code == 0
    swept = json.loads(out)["sweep"]
    assert [each["matmul"]["m"] for each in swept["matmuls"]] == [1, 8]
    assert all(each["gflops"] > 0 for each in swept["matmuls"])
    assert "kernel names" in swept["not_measured"]
    code, _, err = _run(capsys, "--device", "cpu", "-o", "x.parquet")
    assert code == 2
    assert "-o writes the map of a GPU" in err


def test_the_matmuls_of_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    chosen = tmp_path / "model.txt"
    chosen.write_text("# my model\n2x64x32 fp32 nn bias+gelu\n\n2x64x32 fp8\n")
    code, out, _ = _run(capsys, "--device", "cpu", "--points", str(chosen), "--json")
    assert code == 0
    (only,) = json.loads(out)["sweep"]["matmuls"]
    assert (only["matmul"]["layout"], only["matmul"]["epilogue"]) == ("nn", "bias_gelu")
    for text, why in (("# none", "no matmul in it"), ("2x64x32 int4", "'int4' is unknown")):
        chosen.write_text(text)
        code, _, err = _run(capsys, "--points", str(chosen))
        assert code == 2
        assert why in err


def test_a_live_card_marks_a_prediction() -> None:
    pytest.importorskip("torch")
    from foretrace.names.gemms.table import entry
    from foretrace.record.experiments.gemms.sweep import mark, marked
    from foretrace.schema.gemm_point import GemmPoint

    found = table.named("h200")
    point = GemmPoint(8192, 768, 3072)
    real = entry(found.frame.row(found.rows[point], named=True))
    assert mark("H200", real, "nvjet", 52.0).verdict == "hit"
    assert mark("H200", real, "nvjet", 60.0).verdict == "miss"
    assert mark("H200", real, "xmma", 50.0).verdict == "miss"
    import torch

    if not torch.cuda.is_available():
        assert marked(found, point, "nvjet", 50.0) == (None, "torch sees no CUDA GPU here")
