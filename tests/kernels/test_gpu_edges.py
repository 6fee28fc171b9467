"""On a GPU: rows, widths and hidden widths around the edges of tiles, by every route; odd rows."""

from __future__ import annotations

import pytest
import torch
from exactness import assert_as_good_as_torch

from foretrace.kernels import gated_mlp, mlp_reference, routes
from foretrace.kernels import mlp as mlp_module
from foretrace.kernels.case import CallCase
from foretrace.kernels.routes import ALL_LIBRARY, PARTS, SEPARATE, Plan
from foretrace.kernels.tune import CANDIDATES

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU"),
]
# A specialised loop that ends early, or a barrier that is passed once too often, shows at one tile,
# at a tile and a bit, and at fewer steps of depth than the pipeline has stages.
EDGES = (
    (1, 8, 8),
    (127, 64, 64),
    (128, 72, 136),
    (129, 56, 1000),
    (257, 136, 128),
    (4097, 192, 264),
    (8200, 64, 1088),  # several tiles a program, each of one step
    (1025, 128, 192),  # from 1024 rows on, factors are saved instead of gate and up
    (3000, 320, 704),  # more down tiles than multiprocessors would share evenly
)


def _plans() -> list[Plan]:
    routes = {part: [route for _, _, route in rows] for part, rows in CANDIDATES.items()}
    for part in ("whole", "whole_saving"):  # else no plan would compute gate, up and down apart
        routes[part] = [SEPARATE, *routes[part], SEPARATE]
    count = max(map(len, routes.values()))
    chosen = [[r[i % len(r)] for part in PARTS for r in [routes[part]]] for i in range(count)]
    return [Plan(*row) for row in chosen]


@pytest.mark.parametrize("size", EDGES)
@pytest.mark.parametrize("activation", ["gelu_tanh", "silu", "relu"])
def test_edges(
    size: tuple[int, int, int], activation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    m, d, h = size
    torch.manual_seed(0)  # at eight by eight the errors of both are luck
    new = {"device": "cuda", "dtype": torch.bfloat16}
    tensors = [torch.randn(m, d, **new), *(torch.randn(h, d, **new) / d**0.5 for _ in "gu")]
    tensors.append(torch.randn(d, h, **new) / h**0.5)
    dy = torch.randn(m, d, **new)
    right = _gradients(mlp_reference, [t.double() for t in tensors], dy.double(), activation)
    theirs = _gradients(mlp_reference, tensors, dy, activation)
    for plan in _plans() if activation == "gelu_tanh" else _plans()[:2]:
        monkeypatch.setattr(mlp_module, "_plan", lambda *_, plan=plan: plan)
        mlp_module.forget()
        mine = _gradients(gated_mlp, tensors, dy, activation)
        for got, other, truth in zip(mine, theirs, right, strict=True):
            assert_as_good_as_torch(got, other, truth)
        with torch.no_grad():
            assert_as_good_as_torch(gated_mlp(*tensors, activation), theirs[0], right[0])


def _gradients(function, tensors, dy, activation):
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    y = function(*leaves, activation)
    return [y.detach(), *torch.autograd.grad(y, leaves, dy)]


@pytest.mark.parametrize("size", [(300, 515, 1030), (512, 64, 129), (700, 1001, 3000)])
def test_rows_off_the_grid_are_padded(
    size: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    m, d, h = size
    monkeypatch.setattr(mlp_module, "LEAST_TRAINED", 1)
    mlp_module.forget()
    new = {"device": "cuda", "dtype": torch.bfloat16}
    both = torch.randn(2 * h, d, **new) / d**0.5
    tensors = [torch.randn(m, d, **new), both[:h], both[h:], torch.randn(d, h, **new) / h**0.5]
    assert mlp_module.pays_to_pad(CallCase.of(*tensors, "gelu_tanh"))
    dy = torch.randn(m, d, **new)
    right = _gradients(mlp_reference, [t.double() for t in tensors], dy.double(), "gelu_tanh")
    theirs = _gradients(mlp_reference, tensors, dy, "gelu_tanh")
    for got, other, truth in zip(
        _gradients(gated_mlp, tensors, dy, "gelu_tanh"), theirs, right, strict=True
    ):
        assert_as_good_as_torch(got, other, truth)


def test_opcheck() -> None:
    new = {"device": "cuda", "dtype": torch.bfloat16}
    x, gate, up = torch.randn(300, 128, **new), *(torch.randn(192, 128, **new) for _ in "gu")
    args = [t.requires_grad_() for t in (x, gate, up, torch.randn(128, 192, **new))]
    torch.library.opcheck(torch.ops.foretrace.gated_mlp.default, (*args, "gelu_tanh", True))


def test_one_launch_after_another_finds_its_counters_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes in turn, on two streams and from a CUDA graph: each result equals that of the parts."""
    new = {"device": "cuda", "dtype": torch.bfloat16}
    whole = CANDIDATES["whole"][0][2]
    plan = ALL_LIBRARY._replace(whole=whole, gate_up=CANDIDATES["gate_up"][0][2])
    apart = plan._replace(whole=SEPARATE)
    made = []
    for m, d, h in ((2048, 768, 3072), (1280, 1024, 2048), (2048, 768, 3072)):
        weights = [torch.randn(h, d, **new), torch.randn(h, d, **new), torch.randn(d, h, **new)]
        made.append([torch.randn(m, d, **new), *(w / w.shape[1] ** 0.5 for w in weights)])
    monkeypatch.setattr(mlp_module, "_plan", lambda *_: apart)
    mlp_module.forget()
    right = [gated_mlp(*tensors) for tensors in made]
    monkeypatch.setattr(mlp_module, "_plan", lambda *_: plan)
    mlp_module.forget()
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    for _ in range(20):
        got = []
        for number, tensors in enumerate(made):
            with torch.cuda.stream(streams[number % 2]):
                got.append(gated_mlp(*tensors))
        torch.cuda.synchronize()
        assert all(map(torch.equal, got, right))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = [gated_mlp(*tensors) for tensors in made]
    for _ in range(20):
        for result in captured:
            result.fill_(torch.nan)
        graph.replay()
        torch.cuda.synchronize()
        assert all(map(torch.equal, captured, right))


def test_a_graph_takes_the_library_where_a_call_does_not() -> None:
    """Its pointwise kernels are loaded by the first call, which itself needs none of them."""
    m, d, h = size = (135, 1096, 3208)
    new = {"device": "cuda", "dtype": torch.bfloat16}
    tensors = [torch.randn(shape, **new) for shape in ((m, d), (h, d), (h, d), (d, h))]
    with torch.no_grad():
        wanted = gated_mlp(*tensors, "silu")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            got = gated_mlp(*tensors, "silu")
    graph.replay()
    torch.testing.assert_close(got, wanted, rtol=2e-2, atol=2e-2 * wanted.std().item())
    if "H200" in torch.cuda.get_device_name():
        found = routes.plan_loaded(0, torch.bfloat16, size, "silu", stacked=False)
        assert found == routes.plan(0, torch.bfloat16, size, captured=True)
