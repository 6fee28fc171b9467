"""`foretrace worth` on this machine's CPU: a rung with Inductor, and a person's own code with
Dynamo alone.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("few_calls")]

from foretrace.cli import main  # noqa: E402
from foretrace.record.experiments import worth  # noqa: E402

CODE = """
import torch

print("loading")

def setup(rows=4, columns=8):
    def forward(x):
        return torch.relu(x) + 1
    return forward, (torch.ones(rows, columns),)

def training():
    return torch.nn.Linear(4, 4), torch.ones(2, 4)

def bad(n=1):
    return 1 / 0
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "bench_this.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("bench_this", None)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["worth", *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.sweep
def test_a_rung_compiled_with_inductor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("torch.compile needs a C++ compiler on a CPU")
    line = f"matmul_add --sweep size=8 --device cpu --dtype fp32 --keep {tmp_path}"
    found = answer(capsys, *line.split())
    [mode] = found["modes"]
    assert (found["subject"], found["dtype"], found["shapes"]) == ("matmul_add", "fp32", ["size 8"])
    assert found["compiler_cache"] == "empty"
    assert (mode["mode"], mode["graphs"], mode["recompiles"], mode["graph_breaks"]) == (
        "default",
        1,
        0,
        {},
    )
    assert mode["state"] in ("worth", "not worth", "unknown")
    assert mode["gpu_ns"]["a"] is None
    assert mode["wall_ns"]["noise"] is not None
    assert "No longer called per call: aten::add, aten::matmul and aten::mm." in mode["changed"]
    assert any("No GPU was used" in note for note in found["notes"])
    kept = sorted(path.name for path in tmp_path.glob("*.json.gz"))
    assert kept == ["matmul_add_default.json.gz", "matmul_add_eager.json.gz"]


@pytest.mark.usefixtures("dynamo_alone", "folder")
def test_their_own_code_over_shapes(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "bench_this:setup", "--shapes", "4x8,6x8,10x8")
    [mode] = found["modes"]
    assert found["shapes"] == ["4x8", "6x8", "10x8"]
    assert [stay["graphs"] for stay in mode["shapes"]] == [1, 1, 0]
    assert [len(stay["recompiles"]) for stay in mode["shapes"]] == [0, 1, 0]
    assert found["dtype"] is None


@pytest.mark.usefixtures("dynamo_alone", "folder")
def test_what_they_print_is_no_part_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worth", "bench_this.py:training", "--markdown"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("## bench\\_this.py:training · ")
    assert "The result requires gradients" in captured.out
    assert "loading" not in captured.out
    assert "loading" in captured.err
    assert "foretrace: default: as it is" in captured.err


@pytest.mark.usefixtures("folder")
def test_their_error_is_theirs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worth", "bench_this:bad"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert (
        "ZeroDivisionError: division by zero\nforetrace: bench_this:bad raised ZeroDivisionError\n"
        in captured.err
    )


@pytest.mark.usefixtures("folder", "dynamo_alone")
def test_a_mode_that_cannot_be_compiled_is_a_line_and_the_others_go_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(graph: object, inputs: object) -> object:
        raise RuntimeError("not this graph\nsecond line")

    monkeypatch.setattr(
        worth,
        "compiler",
        lambda mode, device: (
            lambda thing: torch.compile(thing, backend="eager" if mode == "default" else refuses)
        ),
    )
    found = answer(capsys, "bench_this:setup", "--mode", "default", "--mode", "reduce-overhead")
    good, failed = found["modes"]
    assert good["failed"] is None
    assert failed["state"] == "failed"
    assert (
        failed["failed"]
        == "BackendCompilerFailed: backend='refuses' raised: RuntimeError: not this graph"
    )
    assert (
        "reduce-overhead uses CUDA graphs, which need a GPU: here it is the default mode."
        in found["notes"]
    )


def test_without_a_compiler_nothing_can_be_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert main(["worth", "linear", "--sweep", "batch=2", "--device", "cpu"]) == 4
    assert "install g++" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["worth", "shapes"])
def test_without_torch_the_install_command_is_named(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main([command, "mlp"]) == 4
    assert "pip install torch" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        "mlp --shapes 8x8",
        "bench_this:setup --sweep batch=8",
        "bench_this:setup --small",
        "nothing",
        "mlp --mode fast",
        "mlp --json --markdown",
        "mlp --sweep heads=2",
    ],
)
def test_wrong_usage(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worth", *line.split()]) == 2
    assert capsys.readouterr().err.count("\n") == 1
