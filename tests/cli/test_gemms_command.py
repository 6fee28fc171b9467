"""`foretrace lab gemms`: what it prints, and what it refuses."""

from __future__ import annotations

import json

import pytest

from foretrace.cli import main


@pytest.fixture(autouse=True)
def screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["lab", "gemms", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_map_fits_on_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys)
    assert code == 0
    assert len(out.splitlines()) <= 25
    assert out.startswith("NVIDIA H200: 17,341 matmuls")
    assert "8192+" in out
    shown = json.loads(_run(capsys, "--dtype", "fp8", "--json")[1])
    assert shown["heat"]["dtype"] == "fp8"


def test_a_shape_is_explained_on_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, "8192x768x3072")
    assert code == 0
    assert len(out.splitlines()) <= 25
    assert "nvjet 192x128x64 tn bf16, cluster 1x2, 5 stages" in out
    _, out, _ = _run(capsys, "8192x768x3072", "--all")
    assert "As M grows" in out
    assert "192x128 (chosen)" in out
    near = json.loads(_run(capsys, "8192x3072x768", "--json")[1])["near"]
    tiles = near["found"]["tile"], near["partner"]["tile"]
    assert (near["exact"], *tiles) == (True, "256x128", "192x128")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["8192"], "is no size: give MxNxK"),
        (["--dtype", "fp8", "--layout", "nt"], "the map has no matmul fp8 nt"),
        (["1x1x1", "--dtype", "int4"], "Invalid value for '--dtype'"),
    ],
)
def test_what_is_wrong_is_one_line(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = _run(capsys, *words)
    assert (code, out) == (2, "")
    assert why in err
    assert len(err.splitlines()) == 1
