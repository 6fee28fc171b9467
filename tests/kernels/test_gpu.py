"""On a GPU: every route against float64, outputs poisoned, inputs fresh, repeats identical."""

from __future__ import annotations

import pytest
import torch
from exactness import assert_as_good_as_torch, poisoned

from foretrace.kernels import (
    ACTIVATIONS,
    GeGLUMLP,
    gated,
    gated_mlp,
    gated_reference,
    geglu,
    mlp_reference,
    steps,
)
from foretrace.kernels import mlp as mlp_module
from foretrace.kernels.routes import LIBRARY, PARTS, Plan

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU"),
]

DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def _new(*shape: int, dtype: torch.dtype = torch.bfloat16, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=dtype) * scale


def _mlp(m: int, d: int, h: int, dtype: torch.dtype = torch.bfloat16) -> list[torch.Tensor]:
    both = _new(2 * h, d, dtype=dtype, scale=d**-0.5)
    return [_new(m, d, dtype=dtype), both[:h], both[h:], _new(d, h, dtype=dtype, scale=h**-0.5)]


def _with_gradients(function, tensors, dy):
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    y = function(*leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, dy.to(y.dtype))]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_glu(activation: str, dtype: torch.dtype) -> None:
    packed = _new(67, 2 * 3000, dtype=dtype, scale=2.0)
    for gate, up in (
        (_new(64, 3072, dtype=dtype), _new(64, 3072, dtype=dtype)),
        packed.chunk(2, 1),
        packed[:, 1:].chunk(2, 1),
    ):
        if gate.shape != up.shape:
            gate = gate[:, : up.shape[1]]
        dy = _new(*gate.shape, dtype=dtype)
        mine = _with_gradients(lambda a, b: gated(a, b, activation), (gate, up), dy)
        theirs = _with_gradients(lambda a, b: gated_reference(a, b, activation), (gate, up), dy)
        right = _with_gradients(
            lambda a, b: gated_reference(a, b, activation),
            (gate.double(), up.double()),
            dy.double(),
        )
        for got, torchs, want in zip(mine, theirs, right, strict=True):
            assert_as_good_as_torch(got, torchs, want)


def test_more_elements_than_32_bits_count() -> None:
    rows, cols = (1 << 19) + 1, 4096
    gate = torch.ones(rows, cols, device="cuda", dtype=torch.bfloat16)
    gate[-1, -1] = 3.0
    out = geglu(gate, gate)
    assert torch.equal(
        out[-1, -1].float(),
        gated_reference(gate[-1, -1].float(), gate[-1, -1].float()).bfloat16().float(),
    )
    assert torch.equal(out.view(-1)[:: 1 << 20], out[0, 0].expand(out.view(-1)[:: 1 << 20].shape))


def _plans() -> list[Plan]:
    """A plan for every route any part can take."""
    from foretrace.kernels.tune import CANDIDATES

    routes = {part: [LIBRARY, *(route for _, _, route in CANDIDATES[part])] for part in PARTS}
    count = max(map(len, routes.values()))
    return [
        Plan(*(routes[part][index % len(routes[part])] for part in PARTS)) for index in range(count)
    ]


@pytest.mark.parametrize("stacked", [True, False])
@pytest.mark.parametrize("size", [(16, 512, 1536), (133, 264, 1096), (1000, 1024, 520)])
def test_every_route(
    size: tuple[int, int, int], stacked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "LEAST_LONG", 1)  # the activations in rows that fill lines
    tensors, dy = _mlp(*size), _new(*size[:2])
    if not stacked:
        tensors = [tensor.clone() for tensor in tensors]
    right = _with_gradients(mlp_reference, [tensor.double() for tensor in tensors], dy.double())
    theirs = _with_gradients(mlp_reference, tensors, dy)
    for plan in _plans():
        monkeypatch.setattr(mlp_module, "plan", lambda *_, plan=plan: plan)
        mlp_module.forget()
        kept = [tensor.clone() for tensor in tensors]
        mine, again = (_with_gradients(gated_mlp, tensors, dy) for _ in range(2))
        with torch.no_grad():
            alone = [gated_mlp(*tensors) for _ in range(2)]
        for got, torchs, want in zip(
            [*mine, alone[0]], [*theirs, theirs[0]], [*right, right[0]], strict=True
        ):
            assert_as_good_as_torch(got, torchs, want)
        assert all(
            torch.equal(a, b) for a, b in zip([*mine, alone[0]], [*again, alone[1]], strict=True)
        )
        assert all(torch.equal(a, b) for a, b in zip(tensors, kept, strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(1, 8, 8), (5, 33, 77), (300, 768, 3072)])
def test_dispatched(size: tuple[int, int, int], dtype: torch.dtype) -> None:
    torch.manual_seed(0)  # at eight by eight the errors of both are luck
    tensors, dy = _mlp(*size, dtype=dtype), _new(*size[:2], dtype=dtype)
    right = _with_gradients(mlp_reference, [tensor.double() for tensor in tensors], dy.double())
    theirs = _with_gradients(mlp_reference, tensors, dy)
    for got, torchs, want in zip(
        _with_gradients(gated_mlp, tensors, dy), theirs, right, strict=True
    ):
        assert_as_good_as_torch(got, torchs, want)


def test_unwritten_outputs_would_show() -> None:
    from foretrace.kernels.device.apply import gated_forward

    gate, up, out = (
        _new(77, 1030),
        _new(77, 1030),
        poisoned((77, 1030), device="cuda", dtype=torch.bfloat16),
    )
    gated_forward(gate, up, out, "gelu_tanh")
    assert not out.isnan().any()


def test_compiled_module_and_graph_capture() -> None:
    module = GeGLUMLP(512, 1536, device="cuda", dtype=torch.bfloat16)
    x = _new(16, 512)
    with torch.no_grad():
        eager = module(x)
        torch.testing.assert_close(torch.compile(module, fullgraph=True)(x), eager)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = module(x)
        graph.replay()
        torch.testing.assert_close(captured, eager)
    x.requires_grad_()
    got = torch.autograd.grad(
        torch.compile(module, fullgraph=True)(x).sum(), (x, *module.parameters())
    )
    want = torch.autograd.grad(module(x).sum(), (x, *module.parameters()))
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=2e-2, atol=2e-2)
