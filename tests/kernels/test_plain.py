"""What needs no GPU and no interpreter: the reference path, the module, what it accepts, what it
says.
"""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn

from foretrace.kernels import (
    ACTIVATIONS,
    GeGLUMLP,
    PlainRoute,
    gated,
    gated_mlp,
    gated_reference,
    geglu,
    mlp_reference,
    reglu,
    steps,
    support,
    swiglu,
)
from foretrace.kernels.case import CallCase
from foretrace.kernels.glu import activation_named


@pytest.fixture(autouse=True)
def _nothing_said_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support, "_noted", set())


pytestmark = pytest.mark.filterwarnings("ignore::foretrace.kernels.PlainRoute")


class SimpleGeGLUMLP(nn.Module):
    """The article's module."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(dim, hidden, bias=False)
        self.up_proj = nn.Linear(dim, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(
            torch.nn.functional.gelu(self.gate_proj(x), approximate="tanh") * self.up_proj(x)
        )


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradcheck_in_float64(activation: str) -> None:
    gate, up = (
        torch.randn(3, 4).double().requires_grad_(),
        torch.randn(3, 4).double().requires_grad_(),
    )
    assert torch.autograd.gradcheck(lambda a, b: gated(a, b, activation), (gate, up))
    tensors = [
        torch.randn(shape).double().requires_grad_() for shape in ((3, 4), (5, 4), (5, 4), (4, 5))
    ]
    assert torch.autograd.gradcheck(lambda *t: gated_mlp(*t, activation), tensors)


def test_the_names() -> None:
    gate, up = torch.randn(2, 8), torch.randn(2, 8)
    assert torch.equal(geglu(gate, up), gated_reference(gate, up, "gelu_tanh"))
    assert torch.equal(geglu(gate, up, approximate="none"), gated_reference(gate, up, "gelu_erf"))
    assert torch.equal(swiglu(gate, up), gated_reference(gate, up, "silu"))
    assert torch.equal(reglu(gate, up), gated_reference(gate, up, "relu"))
    assert activation_named("gelu_pytorch_tanh") == "gelu_tanh"
    with pytest.raises(ValueError, match="unknown activation 'mish'"):
        activation_named("mish")
    with pytest.raises(ValueError, match="approximate is 'tanh' or 'none'"):
        geglu(gate, up, approximate="erf")


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="gate and up differ"):
        geglu(torch.zeros(2, 8), torch.zeros(2, 9))
    with pytest.raises(ValueError, match="gate and up differ"):
        geglu(torch.zeros(2, 8), torch.zeros(2, 8).half())


def test_plain_torch_is_said_once() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            geglu(torch.zeros(2), torch.zeros(2))
            GeGLUMLP(4, 8)(torch.zeros(2, 4))
    assert [str(one.message) for one in seen if one.category is PlainRoute] == [
        "foretrace.kernels: plain torch runs here: the tensors are on 'cpu', not on a CUDA GPU"
    ]


def test_a_state_dict_loads_as_it_is() -> None:
    theirs, mine = SimpleGeGLUMLP(8, 16), GeGLUMLP(8, 16)
    mine.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(mine.state_dict())
    x = torch.randn(2, 3, 8)
    torch.testing.assert_close(mine(x), theirs(x))


def test_from_a_module_it_cannot_stand_for() -> None:
    with pytest.raises(ValueError, match=r"gate_proj is not an nn\.Linear"):
        GeGLUMLP.from_module(nn.Linear(4, 4))
    odd = SimpleGeGLUMLP(4, 8)
    odd.act_fn = nn.Mish()
    with pytest.raises(ValueError, match="pass activation= one of gelu_tanh"):
        GeGLUMLP.from_module(odd)
    assert GeGLUMLP.from_module(odd, activation="silu").activation == "silu"


def test_biases_take_the_plain_route() -> None:
    theirs = SimpleGeGLUMLP(4, 8)
    theirs.up_proj = nn.Linear(4, 8)
    mine, x = GeGLUMLP.from_module(theirs), torch.randn(2, 4)
    with pytest.warns(PlainRoute, match="the projections have biases"):
        torch.testing.assert_close(mine(x), theirs(x))


def test_gate_and_up_stay_together() -> None:
    module = GeGLUMLP(8, 16)

    def together() -> bool:
        return steps.stacked(module.gate_proj.weight, module.up_proj.weight) is not None

    assert together()
    module.load_state_dict(SimpleGeGLUMLP(8, 16).state_dict())
    assert together()
    module.double()
    assert together()
    assert module.gate_proj.weight.dtype == torch.float64
    both = steps.stacked(module.gate_proj.weight, module.up_proj.weight)
    assert torch.equal(both, torch.cat((module.gate_proj.weight, module.up_proj.weight)))
    # A copy need not keep them together, and works all the same.
    x = torch.randn(2, 8).double()
    assert torch.equal(copy.deepcopy(module)(x), module(x))
    assert steps.stacked(torch.zeros(4, 4), torch.zeros(4, 4)) is None


def test_neighbours_by_chance_are_two_tensors() -> None:
    both = torch.randn(32, 8)
    gate, up = both.chunk(2)
    x, down = torch.randn(3, 8), torch.randn(8, 16)
    assert CallCase.of(x, gate, up, down, "silu").order == 2
    memory = both.numpy()
    beside = [torch.from_numpy(memory[rows]) for rows in (slice(16), slice(16, 32))]
    assert beside[0].data_ptr() + beside[0].nbytes == beside[1].data_ptr()
    assert CallCase.of(x, *beside, down, "silu").order == 1


@pytest.mark.parametrize(
    "backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.sweep)]
)
def test_compiles_whole_on_a_cpu(backend: str) -> None:
    """One graph forward and backward; to Inductor the operators are calls."""
    torch._dynamo.reset()
    module, x = GeGLUMLP(8, 16), torch.randn(2, 8, requires_grad=True)
    compiled = torch.compile(module, fullgraph=True, backend=backend)
    torch.testing.assert_close(compiled(x), module(x))
    mine = torch.autograd.grad(compiled(x).sum(), (x, *module.parameters()))
    for got, want in zip(
        mine, torch.autograd.grad(module(x).sum(), (x, *module.parameters())), strict=True
    ):
        torch.testing.assert_close(got, want)
    gate, up = torch.randn(4, 8), torch.randn(4, 8)
    alone = torch.compile(geglu, fullgraph=True, backend=backend)
    torch.testing.assert_close(alone(gate, up), geglu(gate, up))


def test_operators_pass_opcheck_on_a_cpu() -> None:
    tensors = [
        torch.randn(shape, requires_grad=True) for shape in ((2, 3, 8), (16, 8), (16, 8), (8, 16))
    ]
    torch.library.opcheck(torch.ops.foretrace.gated_mlp.default, (*tensors, "silu", True))
    tensors = [tensor.detach() for tensor in tensors]
    torch.library.opcheck(torch.ops.foretrace.gated_mlp.default, (*tensors, "silu", False))
    y, middle, pre = torch.ops.foretrace.gated_mlp(*tensors, "silu", True)
    torch.testing.assert_close(y, mlp_reference(*tensors, "silu"))
    arguments = (torch.randn_like(y), *tensors, middle, pre, "silu")
    torch.library.opcheck(torch.ops.foretrace.gated_mlp_backward.default, arguments)
