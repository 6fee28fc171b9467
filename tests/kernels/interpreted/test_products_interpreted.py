"""The matrix-product kernels against float64 at odd sizes, under Triton's interpreter."""

from itertools import product

import pytest
import torch
from exactness import assert_as_good_as_torch, poisoned

from foretrace.kernels import gated_reference
from foretrace.kernels.case import CallCase
from foretrace.kernels.device.launch import Variant
from foretrace.kernels.device.products import (
    Tile,
    gate_up,
    gate_up_tma,
    gradient_tma,
    narrow_product,
    takes_pair,
    takes_tma,
)
from foretrace.kernels.steps import few_rows_part
from sweep import FULL

SIZES = [(1, 8, 8), (5, 24, 40), (33, 64, 72), (70, 136, 104)]
NARROW, SPLITS = [(1, 8, 16), (17, 40, 72), (16, 33, 50)], [1, 2, 3, 8]
DTYPES = [torch.float16, torch.bfloat16]
# The full sweep has every pair, and the size that takes longest.
TYPED = (
    list(product(SIZES, DTYPES)) if FULL else list(zip(SIZES, [*DTYPES, DTYPES[0]], strict=False))
)
SPLIT = (
    list(product(NARROW, SPLITS)) if FULL else list(zip([*NARROW, NARROW[0]], SPLITS, strict=True))
)
SMALL = Tile(32, 32, 32, 2, 4, 2)


def _random(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return (torch.randn(shape) / shape[-1] ** 0.5).to(dtype)


def _run(compute, x, gate, up, out, pre, activation: str = "gelu_tanh") -> None:
    case = CallCase.of(x, gate, up, torch.empty(gate.T.shape, dtype=x.dtype), activation)
    compute(case, SMALL, "" if pre is None else "products")(
        x, gate, up, out, out if pre is None else pre
    )


@pytest.mark.parametrize(("size", "dtype"), TYPED)
@pytest.mark.parametrize("compute", [gate_up_tma, gate_up])
def test_gate_and_up(compute, size, dtype) -> None:
    m, d, h = size
    x, gate, up = (
        torch.randn(m, d).to(dtype),
        _random(h, d, dtype=dtype),
        _random(h, d, dtype=dtype),
    )
    products = x.double() @ gate.double().T, x.double() @ up.double().T
    theirs = gated_reference(x @ gate.T, x @ up.T)
    for pre in (None, poisoned((m, 2 * h), dtype=dtype)):
        out = poisoned((m, h), dtype=dtype)
        _run(compute, x, gate, up, out, pre)
        assert_as_good_as_torch(out, theirs, gated_reference(*products), ulps=1)
        if pre is not None:
            assert_as_good_as_torch(
                pre, torch.cat((x @ gate.T, x @ up.T), 1), torch.cat(products, 1), ulps=1
            )


def test_either_weight_may_come_first_in_memory_and_rows_may_be_strided() -> None:
    m, d, h = 9, 24, 40
    both, wide = _random(2, h, d + 8, dtype=torch.float16)[:, :, :d], torch.randn(m, d + 16).half()
    x = wide[:, 8 : 8 + d]
    for gate, up in (both, both.flip(0).unbind(0), (both[1], both[0])):
        right = gated_reference(x.double() @ gate.double().T, x.double() @ up.double().T)
        out = poisoned((m, h), dtype=torch.float16)
        _run(gate_up_tma, x, gate, up, out, None)
        assert_as_good_as_torch(out, gated_reference(x @ gate.T, x @ up.T), right, ulps=1)


def test_what_the_accelerator_does_not_take() -> None:
    def case(x: torch.Tensor, up: torch.Tensor | None = None) -> CallCase:
        gate, down = (torch.zeros(shape, dtype=x.dtype) for shape in ((8, 16), (16, 8)))
        return CallCase.of(x, gate, gate.clone() if up is None else up, down, "silu")

    ok = torch.zeros(8, 16, dtype=torch.float16)
    wide = torch.zeros(8, 24, dtype=torch.float16)[:, :16]
    assert takes_tma(case(ok))
    assert takes_pair(case(ok))
    assert takes_tma(case(wide))
    assert not takes_tma(case(ok.float()))
    assert not takes_tma(case(torch.zeros(8, 17, dtype=torch.float16)[:, :16]))
    assert not takes_tma(case(torch.zeros(144, dtype=torch.float16)[4:132].view(8, 16)))
    assert not takes_pair(case(ok, wide))
    assert not takes_pair(CallCase.of(ok, ok, ok, ok.view(16, 8), "silu"))


@pytest.mark.parametrize(("size", "dtype"), TYPED)
def test_gradient(size, dtype) -> None:
    m, d, h = size
    dy, w_down, pre = (
        torch.randn(m, d).to(dtype),
        _random(d, h, dtype=dtype),
        torch.randn(m, 2 * h).to(dtype),
    )

    def by_autograd(kind: torch.dtype) -> torch.Tensor:
        leaf = pre.to(kind, copy=True).requires_grad_()
        return torch.autograd.grad(
            gated_reference(*leaf.chunk(2, 1)), leaf, dy.to(kind) @ w_down.to(kind)
        )[0]

    kept, grads = pre.clone(), poisoned((m, 2 * h), dtype=dtype)
    case = CallCase.of(dy, w_down.T.contiguous(), w_down.T.contiguous(), w_down, "gelu_tanh")
    gradient_tma(case, Tile(32, 64, 16, 2, 4, 2), "gelu_tanh")(dy, w_down, pre, grads)
    assert_as_good_as_torch(grads, by_autograd(dtype), by_autograd(torch.float64), ulps=1)
    assert torch.equal(pre, kept)


@pytest.mark.parametrize(("size", "split"), SPLIT)
def test_narrow_product_is_the_same_every_time(size, split) -> None:
    m, d, h = size
    a, w = torch.randn(m, h).half(), _random(d, h, dtype=torch.float16)
    outs = [poisoned((m, d), dtype=torch.float16) for _ in range(2)]
    case = CallCase.of(outs[0], w.T.contiguous(), w.T.contiguous(), w, "silu")
    for out in outs:
        narrow_product(case, Tile(16, 16, 32, 2, 4, split=split))(a, w, out)
    assert_as_good_as_torch(outs[0], a @ w.T, a.double() @ w.double().T, ulps=1)
    assert torch.equal(*outs)


def test_gate_and_up_in_float32_and_at_sizes_of_one() -> None:
    m, d, h = 3, 5, 7
    x, gate, up = torch.randn(m, d), torch.randn(h, d), torch.randn(h, d)
    out = poisoned((m, h))
    _run(gate_up, x, gate, up, out, None)
    right = gated_reference(x.double() @ gate.double().T, x.double() @ up.double().T)
    # Half-precision epilogue: this kernel serves 16-bit results.
    torch.testing.assert_close(out.double(), right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize(("m", "d", "h"), [(1, 136, 72), (5, 64, 200), (16, 70, 33), (17, 24, 40)])
def test_weight_gradients_of_few_rows(m, d, h, apart) -> None:
    """Whole and cut tiles, on and off the 16-byte grid, `x` in wider rows."""
    dtype = torch.bfloat16 if m & 1 else torch.float16
    x = torch.randn(m, 2 * d).to(dtype)[:, :d]
    weight = torch.empty(h, d, dtype=dtype)
    case = CallCase.of(x, weight, weight.clone(), weight.t().contiguous(), "gelu_tanh")
    step = h + 8 if apart else h
    dy, middle = torch.randn(m, d).to(dtype), torch.randn(m, step).to(dtype)[:, :h]
    grads = torch.randn(m, 2 * step).to(dtype)
    left, right = grads[:, :step][:, :h], grads[:, step:][:, :h]
    found = few_rows_part(case, step, apart=apart)
    assert found is not None
    given = (left.new_empty_strided((m, h), (step, 1)).copy_(g) for g in (left, right))
    both = tuple(given) if apart else (grads, grads)
    gate_up, down = found(*both, x, dy, middle)
    got = (*(gate_up if apart else gate_up.chunk(2)), down)
    for mine, a, b in zip(got, (left, right, dy), (x, x, middle), strict=True):
        assert_as_good_as_torch(mine, a.t() @ b, a.double().t() @ b.double(), ulps=1)


def test_what_a_graph_cannot_load_is_not_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library computes the weight gradients of few rows there."""
    rows = torch.zeros(2, 16, dtype=torch.float16)
    weight = torch.zeros(16, 16, dtype=torch.float16)
    compute = few_rows_part(CallCase.of(rows, weight, weight, weight, "silu"), 16, apart=True)
    assert compute is not None
    assert compute(rows, rows, rows, rows, rows) is not None
    monkeypatch.setattr(Variant, "can_launch", lambda *_: False)
    assert compute(rows, rows, rows, rows, rows) is None
