"""The whole MLP through the kernels: every route, autograd, the registered operators,
`torch.compile`.
"""

from itertools import product

import pytest
import torch
from exactness import assert_as_good_as_torch

from foretrace.kernels import GeGLUMLP, gated_mlp, mlp_reference, steps
from foretrace.kernels import mlp as mlp_module
from foretrace.kernels.case import CallCase, Tile
from foretrace.kernels.routes import ALL_LIBRARY, LIBRARY, Plan, Route
from sweep import FULL

SMALL = Tile(32, 32, 32, 2, 4, 2)
TMA = Plan(
    Route("tma", SMALL), Route("tma", SMALL), LIBRARY, Route("tma", Tile(32, 64, 16, 2, 4, 2))
)
POINTER = Plan(
    Route("pointer", SMALL),
    Route("pointer", SMALL),
    Route("narrow", Tile(16, 16, 32, 2, 4, split=3)),
    LIBRARY,
)
PLANS = {"library": ALL_LIBRARY, "tma": TMA, "pointer": POINTER}
# How an operator is registered does not depend on the route; the full sweep asks for all the same.
ONCE = list(PLANS) if FULL else ["tma"]
# Each value beside each other one of another kind, but for the full sweep.
SAVINGS = list(product((torch.float16, torch.bfloat16), (True, False), ("products", "factors")))
SOME = [
    (torch.float16, True, "products"),
    (torch.bfloat16, False, "products"),
    (torch.bfloat16, True, "factors"),
    (torch.float16, False, "factors"),
]


@pytest.fixture(params=PLANS)
def plan(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Plan:
    chosen = PLANS[request.param]
    monkeypatch.setattr(mlp_module, "plan", lambda *_: chosen)
    mlp_module.forget()
    return chosen


def _inputs(
    *shape: int, h: int, dtype: torch.dtype = torch.float16, stacked: bool = True
) -> list[torch.Tensor]:
    d = shape[-1]
    both = (torch.randn(2 * h, d) / d**0.5).to(dtype)
    gate, up = both.chunk(2) if stacked else (both[:h].clone(), both[h:].clone())
    return [torch.randn(shape).to(dtype), gate, up, (torch.randn(d, h) / h**0.5).to(dtype)]


def _gradients(function, tensors: list[torch.Tensor], dy: torch.Tensor) -> list[torch.Tensor]:
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    y = function(*leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, dy.to(y.dtype))]


@pytest.mark.parametrize(("dtype", "stacked", "saved"), SAVINGS if FULL else SOME)
def test_forward_and_gradients(
    plan: Plan, dtype: torch.dtype, stacked: bool, saved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "saved_as", lambda *_: saved)
    mlp_module.forget()
    tensors, dy = (
        _inputs(2, 5, 24, h=40, dtype=dtype, stacked=stacked),
        torch.randn(2, 5, 24).to(dtype),
    )
    kept = [tensor.clone() for tensor in tensors]
    mine = _gradients(gated_mlp, tensors, dy)
    theirs = _gradients(mlp_reference, tensors, dy)
    right = _gradients(mlp_reference, [tensor.double() for tensor in tensors], dy.double())
    for got, torchs, want in zip(mine, theirs, right, strict=True):
        # Truncation in the interpreter accumulates over three roundings.
        assert_as_good_as_torch(got, torchs, want, ulps=3)
    assert all(torch.equal(a, b) for a, b in zip(tensors, kept, strict=True))


@pytest.mark.parametrize("plan", ONCE, indirect=True)
def test_only_what_is_asked_for(plan: Plan) -> None:
    for wanted in range(4):
        leaves = _inputs(6, 24, h=40)
        leaves[wanted].requires_grad_()
        gated_mlp(*leaves).sum().backward()
        assert [leaf.grad is not None for leaf in leaves] == [index == wanted for index in range(4)]


@pytest.mark.parametrize("shape", [(3, 5, 64), (6, 61)])
def test_the_result_may_be_changed_in_place(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of another shape, and padded ones, are views inside."""
    for least in ("LEAST_TRAINED", "LEAST_PADDED"):
        monkeypatch.setattr(mlp_module, least, 1)
    mlp_module.forget()
    tensors = [tensor.requires_grad_() for tensor in _inputs(*shape, h=32)]
    y = gated_mlp(*tensors)
    y += 1
    y.sum().backward()
    assert all(tensor.grad is not None for tensor in tensors)


@pytest.mark.parametrize("plan", sorted({*ONCE, "pointer"}), indirect=True)
def test_strided_x(plan: Plan) -> None:
    _, *weights = _inputs(6, 24, h=40)
    wide = torch.randn(6, 4, 48).half()
    for x in (
        wide[:, 0, :24],
        wide[:, :, :24],
        wide[:, ::2, 8:32],
        wide[:, :, ::2],
        wide.transpose(0, 1)[..., :24],
    ):
        torch.testing.assert_close(
            gated_mlp(x, *weights), mlp_reference(x, *weights), rtol=1e-2, atol=1e-2
        )


@pytest.mark.parametrize("plan", ["pointer"], indirect=True)
def test_transposed_weights(plan: Plan) -> None:
    """Rows whose elements do not follow each other go to the library."""
    x, *weights = _inputs(6, 24, h=40, stacked=False)
    for turned in range(3):
        given = [w.t().contiguous().t() if i == turned else w for i, w in enumerate(weights)]
        torch.testing.assert_close(
            gated_mlp(x, *given), mlp_reference(x, *weights), rtol=1e-2, atol=1e-2
        )


@pytest.mark.parametrize("plan", ONCE, indirect=True)
def test_hooks_may_move_what_is_saved(plan: Plan) -> None:
    leaves = [tensor.detach().requires_grad_() for tensor in _inputs(6, 24, h=40, stacked=False)]
    wide = torch.empty(24, 48, dtype=torch.float16)
    leaves[3] = wide[:, :40].copy_(leaves[3].detach()).requires_grad_()
    want = torch.autograd.grad(gated_mlp(*leaves).sum(), leaves)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone().contiguous(), lambda t: t):
        y = gated_mlp(*leaves)
    got = torch.autograd.grad(y.sum(), leaves)
    for mine, right in zip(got, want, strict=True):
        torch.testing.assert_close(mine, right, rtol=1e-2, atol=2e-3)


def test_gradients_of_gradients_are_refused() -> None:
    leaves = [tensor.detach().requires_grad_() for tensor in _inputs(6, 24, h=40)]
    loss = gated_mlp(*leaves).square().sum()
    dx = torch.autograd.grad(loss, leaves[0], create_graph=True)[0]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dx.sum().backward()


def test_sizes_the_accelerator_does_not_take() -> None:
    tensors = _inputs(6, 21, h=35)
    y = steps.forward(CallCase.of(*tensors, "gelu_tanh"), TMA)(*tensors)
    torch.testing.assert_close(y, mlp_reference(*tensors), rtol=1e-2, atol=1e-2)


@pytest.mark.sweep  # `test_a_model_stays_one_graph` compiles it in every run, `test_plain.py` its gradients
@pytest.mark.parametrize("plan", PLANS, indirect=True)
def test_compiled_module(plan: Plan) -> None:
    torch._dynamo.reset()
    module = GeGLUMLP(24, 40, dtype=torch.float16)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    x = torch.randn(6, 24).half().requires_grad_()
    torch.testing.assert_close(compiled(x), module(x))
    mine = torch.autograd.grad(compiled(x).sum(), (x, *module.parameters()))
    for got, want in zip(
        mine, torch.autograd.grad(module(x).sum(), (x, *module.parameters())), strict=True
    ):
        # The compiler may hand the weights over apart; the two halves of dx are then rounded before
        # they are added.
        torch.testing.assert_close(got, want, rtol=1e-2, atol=2e-3)


@pytest.mark.parametrize("shape", [(3, 5, 21), (40, 64)] if FULL else [(3, 5, 21)])
def test_rows_off_the_grid_are_padded(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlp_module, "LEAST_PADDED", 1)
    monkeypatch.setattr(mlp_module, "LINE", 16)
    monkeypatch.setattr(mlp_module, "LEAST_TRAINED", 1)
    mlp_module.forget()
    tensors = _inputs(*shape, h=35)
    dy = torch.randn(shape)
    mine = _gradients(gated_mlp, tensors, dy)
    theirs = _gradients(mlp_reference, tensors, dy)
    right = _gradients(mlp_reference, [tensor.double() for tensor in tensors], dy.double())
    for got, other, truth in zip(mine, theirs, right, strict=True):
        assert_as_good_as_torch(got, other, truth, ulps=2)
    with torch.no_grad():
        assert torch.equal(gated_mlp(*tensors), mine[0])


@pytest.mark.parametrize("plan", ["library"], indirect=True)
@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.usefixtures("plan")
def test_activations_in_rows_that_fill_lines(moved: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "LEAST_LONG", 1)
    mlp_module.forget()
    tensors, dy = _inputs(6, 24, h=40, dtype=torch.bfloat16, stacked=False), torch.randn(6, 24)
    seen: list[tuple[int, ...]] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        seen.append(tensor.stride())
        return tensor.contiguous() if moved else tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        mine = _gradients(gated_mlp, tensors, dy)
    assert seen.count((64, 1)) == 3
    theirs = _gradients(mlp_reference, tensors, dy)
    right = _gradients(mlp_reference, [tensor.double() for tensor in tensors], dy.double())
    for got, other, truth in zip(mine, theirs, right, strict=True):
        assert_as_good_as_torch(got, other, truth, ulps=3)
    with torch.no_grad():
        assert torch.equal(gated_mlp(*tensors), mine[0])


@pytest.mark.parametrize("plan", ["tma"], indirect=True)
def test_a_model_stays_one_graph(plan: Plan) -> None:
    """Two layers, by module and by function: one graph with two operators, at every batch size."""
    torch._dynamo.reset()
    modules = [GeGLUMLP(24, 40, dtype=torch.float16) for _ in range(2)]
    graphs: list[torch.fx.GraphModule] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        last = modules[1]
        weights = (getattr(last, f"{name}_proj").weight for name in ("gate", "up", "down"))
        return gated_mlp(torch.relu(modules[0](x)), *weights) + x

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        graphs.append(graph)
        return graph

    compiled = torch.compile(model, fullgraph=True, backend=backend, dynamic=True)
    for rows in (6, 10):
        x = torch.randn(rows, 24).half()
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-2, atol=2e-3)
    assert len(graphs) == 1
    called = [str(node.target) for node in graphs[0].graph.nodes if node.op == "call_function"]
    assert sum("gated_mlp" in name for name in called) == 2
