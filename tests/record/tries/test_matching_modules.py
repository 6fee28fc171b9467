"""Fixes that give modules other forward passes: which match, and that everything is put back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

from foretrace.cli import _gated_mlp as gated_mlp  # noqa: E402
from foretrace.kernels.mlp import mlp_reference  # noqa: E402
from foretrace.record.tries import child  # noqa: E402
from foretrace.record.tries.applied import applied  # noqa: E402
from foretrace.record.tries.session import Session  # noqa: E402

pytestmark = pytest.mark.torch


class Gated(torch.nn.Module):
    """Llama's MLP as people write it; `act` is no attribute."""

    def __init__(self, act: Any = F.silu, bias: bool = False, more: int = 0) -> None:
        super().__init__()
        self.gate_proj = torch.nn.Linear(16, 24, bias=bias)
        self.up_proj = torch.nn.Linear(16, 24, bias=bias)
        self.down_proj = torch.nn.Linear(24, 16, bias=bias)
        self.apart = (act, more)

    def forward(self, x: Any) -> Any:
        act, more = self.apart
        return self.down_proj(act(self.gate_proj(x)) * (self.up_proj(x) + more))


class HouseRMSNorm(torch.nn.Module):
    def __init__(self, offset: float = 0.0) -> None:
        super().__init__()
        self.weight, self.offset, self.eps = torch.nn.Parameter(torch.rand(16)), offset, 1e-5

    def forward(self, x: Any) -> Any:
        return F.rms_norm(x, (16,), self.weight + self.offset, self.eps)


def switch(name: str, *modules: Any) -> tuple[Any, Any]:
    session = Session("train.py")
    session.outermost = torch.nn.Sequential(*modules)
    return applied(gated_mlp.__name__)[name](session), session.outermost


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kernels that run on a CPU: plain torch, and a list of the activations that were used."""
    used: list[str] = []

    def computed(x: Any, gate: Any, up: Any, down: Any, activation: str) -> Any:
        used.append(activation)
        return mlp_reference(x, gate, up, down, activation)

    monkeypatch.setattr("foretrace.kernels.support.why_not", lambda device, dtype: None)
    monkeypatch.setattr("foretrace.kernels.mlp.gated_mlp", computed)
    return used


@pytest.mark.parametrize(
    ("act", "name"),
    [(F.silu, "silu"), (F.relu, "relu"), (lambda x: F.gelu(x, approximate="tanh"), "gelu_tanh")],
)
def test_a_gated_mlp_is_known_by_what_it_computes(kernels: list[str], act: Any, name: str) -> None:
    torch.manual_seed(3)
    turned, model = switch("gated_mlp", Gated(act).bfloat16(), torch.nn.Linear(16, 16).bfloat16())
    x = torch.randn(5, 16).bfloat16()
    before = model(x)
    assert turned.why_not() == ""
    turned.turn(True)
    kernels.clear()
    assert torch.allclose(model(x).float(), before.float(), atol=2e-2)
    assert kernels == [name]
    turned.turn(False)
    kernels.clear()
    assert torch.equal(model(x), before)
    assert kernels == []
    assert "forward" not in vars(model[0])


def test_training_goes_on_with_weights_that_were_moved(kernels: list[str]) -> None:
    turned, model = switch("gated_mlp", Gated().bfloat16())
    weights = [each.weight for each in (model[0].gate_proj, model[0].up_proj)]
    values = [each.detach().clone() for each in weights]
    turned.turn(True)
    turned.turn(True)
    model(torch.randn(5, 16).bfloat16()).sum().backward()
    assert [each.weight for each in (model[0].gate_proj, model[0].up_proj)] == weights
    assert all(torch.equal(a, b) for a, b in zip(weights, values, strict=True))
    assert weights[0].untyped_storage().data_ptr() == weights[1].untyped_storage().data_ptr()
    assert all(each.grad.abs().sum() > 0 for each in weights)


@pytest.mark.parametrize(
    ("modules", "reason"),
    [
        ([torch.nn.Linear(4, 4)], "no gated MLP"),
        ([Gated()], "the MLPs are float32, not bfloat16 or float16"),
        ([Gated(bias=True).bfloat16()], "the projections have biases"),
        ([Gated(torch.tanh).bfloat16()], "Gated computes something else"),
        ([Gated(more=1).bfloat16()], "Gated computes something else"),
    ],
)
def test_why_the_kernels_do_not_apply(kernels: list[str], modules: Any, reason: str) -> None:
    turned, _ = switch("gated_mlp", *modules)
    assert reason in turned.why_not()


def test_a_forward_pass_that_was_wrapped_comes_back(kernels: list[str]) -> None:
    turned, model = switch("gated_mlp", Gated().bfloat16())
    wrapped = model[0].forward = model[0].forward
    turned.turn(True)
    assert model[0].forward is not wrapped
    turned.turn(False)
    assert model[0].forward is wrapped


def test_liger_takes_the_modules_that_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    ops = pytest.importorskip("liger_kernel.ops")

    class Function:
        def __init__(self, work: Any) -> None:
            self.apply = work

    def normed(x: Any, weight: Any, eps: float, offset: float, *rest: Any) -> Any:
        return F.rms_norm(x, weight.shape, weight + offset, eps)

    monkeypatch.setattr(ops, "LigerSiLUMulFunction", Function(lambda a, b: F.silu(a) * b))
    gelu = Function(lambda a, b: F.gelu(a, approximate="tanh") * b)
    monkeypatch.setattr(ops, "LigerGELUMulFunction", gelu)
    monkeypatch.setattr(ops, "LigerRMSNormFunction", Function(normed))
    modules = [Gated(), Gated(F.gelu), Gated(F.relu), HouseRMSNorm(), HouseRMSNorm(1.0)]
    turned, model = switch("liger", *modules, HouseRMSNorm(0.5))
    assert turned.why_not() == ""
    x = torch.randn(3, 16)
    before = model(x)
    turned.turn(True)
    changed = ["forward" in vars(each) for each in model]
    assert changed == [True, True, False, True, True, False]
    assert torch.allclose(model(x), before, rtol=1e-2, atol=1e-4)
    turned.turn(False)
    assert not any("forward" in vars(each) for each in model)


def test_ligers_recipe_is_taken_back_whole() -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("liger_kernel")
    from transformers.models.llama import modeling_llama

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "vocab_size": 32}
    config = transformers.LlamaConfig(num_hidden_layers=1, num_key_value_heads=2, **sizes)
    turned, outermost = switch("liger", transformers.LlamaForCausalLM(config))
    model = outermost[0]
    assert turned.why_not() == ""
    owners = [*outermost.modules(), modeling_llama, torch.nn.functional, torch.nn]
    before = [dict(vars(each)) for each in owners]
    for _ in range(2):
        turned.turn(True)
        assert model.forward.__module__.startswith("liger_kernel.")
        assert model.model.layers[0].mlp.forward.__module__.startswith("liger_kernel.")
        assert modeling_llama.apply_rotary_pos_emb.__module__.startswith("liger_kernel.")
        assert applied()["liger"](turned.session).why_not().endswith("already")
        turned.turn(False)
        assert [dict(vars(each)) for each in owners] == before


def test_liger_needs_a_module_that_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    turned, _ = switch("liger", torch.nn.Linear(4, 4))
    assert turned.why_not() == "no gated MLP and no RMSNorm"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "not installed" in turned.why_not()


def test_a_fix_that_cannot_say_why_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    turned, _ = switch("liger", torch.nn.Linear(4, 4))
    assert child._why_not(turned) == turned.why_not()

    def refused(name: str) -> Any:
        raise ImportError("liger-kernel requires transformers >= 5\nnot this one")

    monkeypatch.setattr("importlib.util.find_spec", refused)
    assert child._why_not(turned) == "ImportError: liger-kernel requires transformers >= 5"


def test_the_page_lists_every_fix() -> None:
    page = (Path(__file__).parents[3] / "docs" / "try.md").read_text()
    assert [name for name in applied(gated_mlp.__name__) if f"`{name}`" not in page] == []
