"""Attention of Transformers models: the configuration is switched, and switched back."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

from foretrace.record.tries.applied import applied  # noqa: E402
from foretrace.record.tries.session import Session  # noqa: E402

pytestmark = pytest.mark.torch
IDS = torch.arange(6).view(1, 6)


def llama(kind: str) -> Any:
    transformers = pytest.importorskip("transformers")  # slow to import: not in every worker
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "vocab_size": 32}
    config = transformers.LlamaConfig(num_hidden_layers=1, num_key_value_heads=2, **sizes)
    config._attn_implementation = kind
    return transformers.LlamaForCausalLM(config).eval()


def switch(*models: Any) -> Any:
    session = Session("train.py")
    session.outermost = torch.nn.ModuleList(models)
    return applied()["sdpa"](session)


def test_a_model_inside_another_module_is_switched_and_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    original = F.scaled_dot_product_attention

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        return original(*arguments, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    model, other = llama("eager"), llama("flex_attention")
    turned = switch(model, other)
    assert turned.why_not() == ""
    before = model(IDS).logits
    for _ in range(2):
        turned.turn(True)
        calls.clear()
        assert torch.allclose(model(IDS).logits, before, atol=1e-5)
        assert calls == [1]
        assert other.config._attn_implementation == "flex_attention"
        turned.turn(False)
        calls.clear()
        assert torch.equal(model(IDS).logits, before)
        assert calls == []
        assert model.config._attn_implementation == "eager"


def test_why_it_does_not_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    assert switch(torch.nn.Linear(2, 2)).why_not() == "no Transformers model"
    assert switch(llama("sdpa")).why_not() == "attention is sdpa already"
    model = llama("eager")
    monkeypatch.setattr(type(model), "_supports_sdpa", False)
    monkeypatch.setattr(type(model.model), "_supports_sdpa", False)
    assert "does not support" in switch(model).why_not()
