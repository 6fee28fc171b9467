"""Where Liger comes from: the Hub when it answers, else PyPI, and the record says which."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
from foretrace.base.errors import MissingError
from foretrace.learn.ladder import builders

pytestmark = pytest.mark.torch


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A `kernels` package whose Hub answers with a layer."""
    asked: list[tuple[str, int]] = []

    def get_kernel(name: str, *, version: int) -> SimpleNamespace:
        asked.append((name, version))
        return SimpleNamespace(layers=SimpleNamespace(LigerGEGLUMLP="from the hub"))

    fake = SimpleNamespace(get_kernel=get_kernel, asked=asked)
    monkeypatch.setitem(sys.modules, "kernels", fake)
    monkeypatch.setattr(builders, "_hub_may_answer", lambda: True)
    return fake


@pytest.fixture
def pypi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        sys.modules, "liger_kernel.transformers.geglu", SimpleNamespace(LigerGEGLUMLP="from pypi")
    )


def test_the_hub_comes_first_with_its_version_pinned(hub: SimpleNamespace) -> None:
    layer, source = builders.liger_layer("cuda")
    assert layer == "from the hub"
    assert source == {"source": "hub", "name": "kernels-community/liger-kernels", "version": 1}
    assert hub.asked == [("kernels-community/liger-kernels", 1)]


@pytest.mark.usefixtures("pypi")
def test_a_hub_that_fails_is_named_and_pypi_takes_over(hub: SimpleNamespace) -> None:
    hub.get_kernel = lambda name, version: {}["nothing built for this torch"]
    layer, source = builders.liger_layer("cuda")
    assert layer == "from pypi"
    assert (source["source"], source["hub"]) == ("pypi", "KeyError: 'nothing built for this torch'")


def test_neither_is_an_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builders, "_hub_may_answer", lambda: False)
    monkeypatch.setitem(sys.modules, "liger_kernel.transformers.geglu", None)
    monkeypatch.setenv("KERNELS_CACHE", "/kept/here")
    with pytest.raises(MissingError, match="pip install liger-kernel") as missing:
        builders.liger_layer("cuda")
    assert "copy /kept/here here, and set HF_HUB_OFFLINE=1" in str(missing.value)
    assert "\n" not in str(missing.value)


def test_the_probe_is_short_and_offline_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # the discard port: nobody answers
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    assert not builders._hub_may_answer()
    monkeypatch.setenv("LOCAL_KERNELS", f"{builders.HUB_REPO}=folder")
    assert builders._hub_may_answer()
    monkeypatch.delenv("LOCAL_KERNELS")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert builders._hub_may_answer()


def test_packed_halves_have_gaps_between_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Liger's function copies what is not contiguous: the variant gives it such tensors."""
    import torch

    seen = list[bool]()

    def fused(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        seen.extend((gate.is_contiguous(), up.is_contiguous()))
        return gate * up

    module = SimpleNamespace(LigerGELUMulFunction=SimpleNamespace(apply=fused))
    monkeypatch.setitem(sys.modules, "liger_for_test", module)
    layer, source = type("Layer", (), {"__module__": "liger_for_test"}), {"source": "test"}
    monkeypatch.setattr(builders, "liger_layer", lambda device: (layer, source))
    packed, facts = builders.gated_mlp("liger_packed", 8, 16, "cuda")
    assert packed(torch.ones(2, 3, 8)).shape == (2, 3, 8)
    assert (seen, facts) == ([False, False], {"liger": source})
    assert sum(each.numel() for each in packed.parameters()) == 3 * 8 * 16
