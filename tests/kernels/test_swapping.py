"""`swap`: which modules are gated MLPs, what they compute then, and that it can be undone."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from foretrace.kernels import swap  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:foretrace.kernels")]

ACTS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu_tanh": lambda a: F.gelu(a, approximate="tanh"),
    "gelu_erf": F.gelu,
    "silu": F.silu,
    "relu": F.relu,
}


class Three(nn.Module):
    """Names that say nothing, in an order of their own."""

    def __init__(
        self,
        act: str = "silu",
        *,
        bias: bool = False,
        p: float = 0.0,
        wide: int = 8,
        deep: int = 12,
    ) -> None:
        super().__init__()
        self.c = nn.Linear(deep, wide, bias=bias)
        self.b = nn.Linear(wide, deep, bias=bias)
        self.a = nn.Linear(wide, deep, bias=bias)
        self.drop = nn.Dropout(p)
        self.act = act

    def forward(self, x: Tensor) -> Tensor:
        return self.c(self.drop(self.b(x) * ACTS[self.act](self.a(x))))


class Packed(nn.Module):
    """Gate and up in one layer."""

    def __init__(self, *, up_first: bool = False, bias: bool = False) -> None:
        super().__init__()
        self.both = nn.Linear(8, 24, bias=bias)
        self.down = nn.Linear(12, 8, bias=bias)
        self.up_first = up_first

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.both(x).chunk(2, -1)
        gate, up = (up, gate) if self.up_first else (gate, up)
        return self.down(F.silu(gate) * up)


class Added(Three):
    """The same layers, another formula."""

    def forward(self, x: Tensor) -> Tensor:
        return self.c(F.silu(self.a(x)) + self.b(x))


class Late(Three):
    """A dropout after down."""

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.c(self.b(x) * F.silu(self.a(x))))


class Hidden(Three):
    """A dropout that is no module."""

    def forward(self, x: Tensor) -> Tensor:
        return self.c(F.dropout(self.b(x) * F.silu(self.a(x)), 0.5, self.training))


class Clamped(Three):
    """Another function far from zero."""

    def forward(self, x: Tensor) -> Tensor:
        return self.c(self.b(x).clamp(-7, 7) * F.silu(self.a(x)))


class Scaled(Three):
    """A buffer that is one today."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x: Tensor, times: float = 1.0) -> Tensor:
        return super().forward(x) * self.scale * times


class Lora(nn.Linear):
    """A layer of somebody else's."""


def trained(model: nn.Module, steps: int = 3) -> list[float]:
    """The losses of a few steps, always from the same numbers."""
    torch.manual_seed(7)
    x, losses = torch.randn(4, 5, 8), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        loss = (model(x) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("act", ACTS)
def test_the_activation_and_the_roles_are_known_by_what_is_computed(act: str) -> None:
    found = swap(nn.Sequential(Three(act)))
    (how,) = found.replaced.values()
    assert (how.gate, how.up, how.down, how.activation) == ("a", "b", "c", act)
    assert found.left == {}


@pytest.mark.parametrize(
    "module",
    [
        Three(),
        Three(bias=True),
        Three(p=0.5),
        Three(wide=8, deep=8),
        Packed(),
        Packed(up_first=True),
        Packed(bias=True),
    ],
    ids=["plain", "bias", "dropout", "square", "packed", "up-first", "packed-bias"],
)
def test_a_swapped_model_trains_as_before(module: nn.Module) -> None:
    model, twin = nn.Sequential(module, nn.Linear(8, 8)), None
    twin = copy.deepcopy(model)
    before, names = model.state_dict(), [*model.state_dict()]
    before = {name: value.clone() for name, value in before.items()}
    state = torch.random.get_rng_state()
    found = swap(model)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert [*found.replaced] == ["0"]
    assert module.training
    assert [*model.state_dict()] == names
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert trained(model) == pytest.approx(trained(twin), rel=1e-5)


def test_undo_brings_back_the_modules_own_code() -> None:
    model = nn.Sequential(Three())
    found = swap(model)
    assert "forward" in vars(model[0])
    assert swap(model).left == {"0": "its forward was replaced before"}
    found.undo()
    assert "forward" not in vars(model[0])
    assert [*swap(model).replaced] == ["0"]


def _hooked() -> nn.Module:
    module = Three()
    module.b.register_forward_hook(lambda *_: None)
    return module


def _offloaded() -> nn.Module:
    module = Three()
    module.b.forward = module.b.forward
    return module


class Wrapped(torch.nn.Parameter):
    """A tensor of somebody else's: distributed, quantized."""


def _wrapped() -> nn.Module:
    module = Three()
    module.c.weight = Wrapped(module.c.weight.detach())
    return module


def _adapted() -> nn.Module:
    module = Three()
    module.a = Lora(8, 12, bias=False)
    return module


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (Added, "it computes something else"),
        (lambda: Late(p=0.5), "it computes something else"),
        (Hidden, "it computes something else"),
        (Clamped, "it computes something else"),
        (Scaled, "it has buffers"),
        (_offloaded, "b has a forward of its own"),
        (_wrapped, "c has a weight that is a Wrapped"),
        (_hooked, "b has hooks"),
        (_adapted, "a is a Lora"),
    ],
)
def test_what_is_left_has_a_reason(make: Callable[[], nn.Module], why: str) -> None:
    model = nn.Sequential(make())
    found = swap(model)
    assert (found.replaced, found.left) == ({}, {"0": why})
    assert repr(found) == f"0 gated MLPs replaced, 1 left\n  0: left, {why}"
    assert "forward" not in vars(model[0])


class Times(Three):
    """Takes more than one argument."""

    def forward(self, x: Tensor, times: float = 1.0) -> Tensor:
        return super().forward(x) * times


class Adapter(nn.Module):
    """What an adapter puts in the place of a layer; the layer's weight is part of it."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base, self.weight, self.bias = base, base.weight, None

    def forward(self, x: Tensor) -> Tensor:
        return 3 * self.base(x)


def test_other_arguments_and_later_layers_run_the_modules_own_code() -> None:
    model, x, seen = Times(), torch.randn(2, 8), list[int]()
    twin = copy.deepcopy(model)
    swap(model)
    for given in ({}, {"times": 2.0}):
        assert torch.allclose(model(x, **given), twin(x, **given), atol=1e-6)
    hook = model.c.register_forward_hook(lambda *_: seen.append(1))
    model(x)
    hook.remove()
    model(x)
    assert seen == [1]
    for each in (model, twin):
        each.a = Adapter(each.a)
    assert torch.allclose(model(x), twin(x), atol=1e-6)


def test_weights_that_others_hold_stay_where_they_are() -> None:
    module = Three()
    flat = torch.cat([module.a.weight.detach(), module.b.weight.detach(), torch.zeros(1, 8)])
    module.a.weight.data, module.b.weight.data = flat[:12], flat[12:24]
    shared, inner = Three().share_memory(), Three()
    with torch.inference_mode():
        own = Three()
        swap(nn.ModuleList([module, shared, inner, own]))
    assert module.a.weight.data_ptr() == flat.data_ptr()
    assert shared.a.weight.is_shared()
    inner(torch.randn(2, 8)).sum().backward()  # weights of inference keep no gradients
    assert not swap(nn.Sequential(nn.LazyLinear(3), nn.LazyLinear(3))).left


def test_a_loaded_pickle_is_swapped_again_and_undo_keeps_what_others_did() -> None:
    model = nn.Sequential(Three())
    found = swap(model)
    assert [*swap(pickle.loads(pickle.dumps(model))).replaced] == ["0"]
    model[0].forward = theirs = model[0].forward.__func__.__get__(model[0])
    found.undo()
    assert model[0].forward is theirs


CONFIG: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "pad_token_id": 0,
}
T5 = {"vocab_size": 64, "d_model": 32, "d_kv": 16, "d_ff": 80, "num_layers": 1, "num_heads": 2}
GPT2 = {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 2}


@pytest.mark.parametrize(
    ("name", "config", "replaced"),
    [
        ("Llama", CONFIG, {"silu": 2}),
        ("Llama", CONFIG | {"mlp_bias": True}, {"silu": 2}),
        ("Gemma", CONFIG, {"gelu_tanh": 2}),
        ("Phi3", CONFIG, {"silu": 2}),
        (
            "T5",
            T5 | {"feed_forward_proj": "gated-gelu", "decoder_start_token_id": 0},
            {"gelu_tanh": 2},
        ),
        ("GPT2", GPT2, {}),
    ],
    ids=["llama", "llama-bias", "gemma", "phi3-packed", "t5-dropout", "gpt2-none"],
)
def test_models_of_transformers(name: str, config: Any, replaced: dict[str, int]) -> None:
    transformers = pytest.importorskip("transformers")
    kind = {"T5": "T5ForConditionalGeneration", "GPT2": "GPT2LMHeadModel"}
    torch.manual_seed(0)
    model = getattr(transformers, kind.get(name, f"{name}ForCausalLM"))(
        getattr(transformers, f"{name}Config")(**config)
    ).train()
    twin, ids = copy.deepcopy(model), torch.randint(1, 64, (2, 9))
    found = swap(model)
    acts = [how.activation for how in found.replaced.values()]
    assert {act: acts.count(act) for act in acts} == replaced
    assert found.left == {}
    losses = []
    for each in (model, twin):
        torch.manual_seed(3)
        loss = each(input_ids=ids, labels=ids).loss
        loss.backward()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    pairs = zip(model.parameters(), twin.parameters(), strict=True)
    assert all(
        one.grad is other.grad is None or torch.allclose(one.grad, other.grad, atol=1e-5)
        for one, other in pairs
    )
