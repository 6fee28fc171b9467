"""The pass for Inductor: what it finds, what it leaves, and that results stay the same."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from foretrace.kernels import gated_mlp, inductor  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:foretrace.kernels")]


def always(_: inductor.GatedNodes) -> bool:
    return True


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    inductor.disable()
    torch._dynamo.reset()


class Mlp(nn.Module):
    def __init__(self, middle: Callable[[Tensor, Tensor], Tensor], *, bias: bool = False) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(16, 24, bias=bias) for _ in range(2))
        self.down = nn.Linear(24, 16, bias=False)
        self.middle = middle

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.middle(self.gate(x), self.up(x)))


def passed(model: nn.Module, pays: inductor.Pays = always) -> tuple[list[str], list[object]]:
    """The activations that the pass finds in a model, and the functions that its graph then calls."""
    called, found = [], inductor.GatedPass(pays)

    def backend(graph: torch.fx.GraphModule, _: object) -> object:
        found(graph.graph)
        graph.graph.lint()
        graph.recompile()
        called.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    x = torch.randn(3, 5, 16)
    out = torch.compile(model, backend=backend)(x)
    torch.testing.assert_close(out, model(x))
    return [each.activation for each in found.seen], called


@pytest.mark.parametrize(
    ("middle", "name"),
    [
        (lambda gate, up: F.silu(gate) * up, "silu"),
        (lambda gate, up: up * F.gelu(gate, approximate="tanh"), "gelu_tanh"),
        (lambda gate, up: F.gelu(gate) * up, "gelu_erf"),
        (lambda gate, up: torch.mul(torch.relu(gate), up), "relu"),
        (lambda gate, up: F.silu(input=gate) * up, "silu"),
    ],
    ids=["silu", "gelu_tanh", "gelu_erf", "relu", "by-name"],
)
def test_gated_mlps_become_one_call(middle: Callable[..., Tensor], name: str) -> None:
    model = nn.Sequential(Mlp(middle), Mlp(middle))
    assert passed(model) == ([name, name], [gated_mlp, gated_mlp])


@pytest.mark.parametrize(
    "model",
    [
        Mlp(lambda gate, up: F.silu(gate) * up, bias=True),
        Mlp(lambda gate, up: F.silu(gate) + up),
        Mlp(lambda gate, up: F.silu(gate) * up * gate),
        Mlp(lambda gate, up: torch.tanh(gate) * up),
        Mlp(lambda gate, up: F.silu(gate) * 2.0),
    ],
    ids=["bias", "sum", "read-twice", "tanh", "no-up"],
)
def test_what_is_no_gated_mlp_stays(model: nn.Module) -> None:
    found, called = passed(model)
    assert found == []
    assert gated_mlp not in called


class Changing(Mlp):
    """Changes its input in place between the parts; the graph has one node for both values."""

    def forward(self, x: Tensor) -> Tensor:
        x = x * 1
        gate = F.silu(self.gate(x))
        x.add_(1.0)
        return self.down(gate * self.up(x))


class Repeated(Mlp):
    """One value of up for all of gate's."""

    def __init__(self) -> None:
        super().__init__(torch.mul)
        self.up = nn.Linear(16, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Written(Mlp):
    """The product goes to a tensor that something else reads."""

    def forward(self, x: Tensor) -> Tensor:
        kept = torch.zeros(3, 5, 24)
        return self.down(torch.mul(F.silu(self.gate(x)), self.up(x), out=kept)) + kept.sum()


@torch.no_grad()
def test_parts_that_something_lies_between_stay() -> None:
    for model in (Changing(torch.mul), Repeated(), Written(torch.mul)):
        assert passed(model)[0] == []


def test_a_size_that_only_a_run_knows_never_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inductor, "why_not", lambda *_: None)
    inner = Mlp(lambda gate, up: F.silu(gate) * up)

    class Masked(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return inner(x[x > -9].view(-1, 16))

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        assert gated_mlp not in passed(Masked(), inductor.pays_here)[1]


def test_inductor_trains_with_it_as_without() -> None:
    model = nn.Sequential(Mlp(lambda gate, up: F.silu(gate) * up))
    twin = copy.deepcopy(model)
    found = inductor.enable(always)
    x = torch.randn(6, 16)
    # a hit runs no pass; without any cache the compiler is asked again what this CPU can do
    with (
        torch._inductor.config.patch(fx_graph_cache=False),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        torch.compile(model, fullgraph=True)(x).square().mean().backward()
    twin(x).square().mean().backward()
    assert [each.replaced for each in found.seen] == [True]
    assert copy.deepcopy(found).seen == found.seen  # as Inductor copies its settings
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_on_a_cpu_it_never_pays_and_another_pass_is_not_displaced() -> None:
    found, called = passed(Mlp(lambda gate, up: F.silu(gate) * up), inductor.pays_here)
    assert found == ["silu"]
    assert gated_mlp not in called
    assert inductor.enable().uuid() != inductor.enable(always).uuid()
    assert inductor.enable(partial(always)).uuid()
    inductor.disable()
    assert torch._inductor.config.pre_grad_custom_pass is None
    with torch._inductor.config.patch(pre_grad_custom_pass=print):
        with pytest.raises(ValueError, match="another pass"):
            inductor.enable()
        inductor.disable()
        assert torch._inductor.config.pre_grad_custom_pass is print
