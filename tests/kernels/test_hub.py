"""The generated kernel repository, loaded by the `kernels` package without a network."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from foretrace.kernels import hub, mlp_reference
from foretrace.kernels.hub import NAME, PYTHON_NAME, write_repository

kernels = pytest.importorskip("kernels")

pytestmark = pytest.mark.filterwarnings(
    "ignore::foretrace.kernels.PlainRoute", "ignore:foretrace.kernels"
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_repository(tmp_path_factory.mktemp("hub") / "geglu")


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_layout(repository: Path) -> None:
    assert f'name = "{NAME}"' in (repository / "build.toml").read_text()
    for place in (repository / "torch-ext" / PYTHON_NAME, repository / "build" / "torch-universal"):
        for name in ("__init__.py", "layers.py", "device/matmuls.py", "tables/nvidia-h200.json"):
            assert (place / name).is_file()
        for source in place.rglob("*.py"):
            assert "import foretrace" not in source.read_text()
            assert "from foretrace" not in source.read_text().replace(
                "from foretrace.kernels import geglu", ""
            )


def test_get_local_kernel(repository: Path) -> None:
    kernel = kernels.get_local_kernel(repository)
    gate, up = torch.randn(3, 8), torch.randn(3, 8)
    torch.testing.assert_close(kernel.geglu(gate, up), kernel.gated_reference(gate, up))
    assert kernel.__name__.startswith(PYTHON_NAME)
    # Its operators live beside the installed package's, under a name of their own.
    assert hasattr(getattr(torch.ops, kernel.__name__), "gated_mlp")
    assert kernel.mlp_reference is not mlp_reference


class GemmaLikeMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(8, 16, bias=False)
        self.up_proj = nn.Linear(8, 16, bias=False)
        self.down_proj = nn.Linear(16, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return mlp_reference(x, self.gate_proj.weight, self.up_proj.weight, self.down_proj.weight)


@pytest.mark.parametrize("mode", ["INFERENCE", "TRAINING"])
def test_kernelize(repository: Path, mode: str) -> None:
    kernels.replace_kernel_forward_from_hub(GemmaLikeMLP, "GatedMLP")
    model = nn.Sequential(GemmaLikeMLP())
    x = torch.randn(4, 8, requires_grad=True)
    before = model(x)
    mapping = {"GatedMLP": {"cpu": kernels.LocalLayerRepository(repository, layer_name="GeGLUMLP")}}
    with kernels.use_kernel_mapping(mapping):
        model = kernels.kernelize(model, mode=getattr(kernels.Mode, mode), device="cpu")
    after = model(x)
    assert model[0].forward.__func__.__module__.startswith(PYTHON_NAME)
    torch.testing.assert_close(after, before)
    after.sum().backward()
    assert x.grad is not None


def test_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["hub", str(tmp_path / "out")])
    runpy.run_path(hub.__file__, run_name="__main__")
    assert capsys.readouterr().out.strip() == str(tmp_path / "out")
    assert (tmp_path / "out" / "build.toml").is_file()
