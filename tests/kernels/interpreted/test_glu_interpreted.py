"""The pointwise kernels against float64: shapes, strides, tails, both directions."""

import pytest
import torch
from exactness import assert_as_good_as_torch, poisoned

from foretrace.kernels import ACTIVATIONS, gated, gated_reference, geglu, reglu, swiglu
from foretrace.kernels.device.apply import gated_backward, gated_forward

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def _check(gate: torch.Tensor, up: torch.Tensor, activation: str) -> None:
    """Forward and backward of one pair, outputs poisoned, against float64."""
    # Truncation in the interpreter costs up to one unit in the last place.
    ulps = 1
    gate64, up64 = gate.double().requires_grad_(), up.double().requires_grad_()
    reference = gated_reference(gate64, up64, activation)
    out = poisoned(tuple(gate.shape), dtype=gate.dtype)
    before = gate.clone(), up.clone()
    gated_forward(gate, up, out, activation)
    assert_as_good_as_torch(out, gated_reference(gate, up, activation), reference.detach(), ulps)

    grad = torch.randn_like(out)
    wanted = torch.autograd.grad(reference, (gate64, up64), grad.double())
    leaves = gate.detach().clone().requires_grad_(), up.detach().clone().requires_grad_()
    torchs = torch.autograd.grad(gated_reference(*leaves, activation), leaves, grad)
    got = (
        poisoned(tuple(gate.shape), dtype=gate.dtype),
        poisoned(tuple(gate.shape), dtype=gate.dtype),
    )
    gated_backward(grad, gate, up, *got, activation)
    for mine, theirs, right in zip(got, torchs, wanted, strict=True):
        assert_as_good_as_torch(mine, theirs, right, ulps)
    assert torch.equal(gate, before[0])
    assert torch.equal(up, before[1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_in_every_dtype(activation: str, dtype: torch.dtype) -> None:
    _check(torch.randn(7, 130, dtype=dtype) * 3, torch.randn(7, 130, dtype=dtype), activation)


@pytest.mark.parametrize(
    "shape", [(), (1,), (1, 1), (8,), (9,), (1023,), (1024,), (1025,), (2, 3, 5), (1, 2056)]
)
def test_tails_and_single_rows(shape: tuple[int, ...]) -> None:
    _check(
        torch.randn(shape, dtype=torch.float16),
        torch.randn(shape, dtype=torch.float16),
        "gelu_tanh",
    )


def test_a_batch_of_slices_a_transpose_and_steps() -> None:
    big = torch.randn(2, 3, 4, 40, dtype=torch.float16)
    _check(big[:, :, :2, :24], big[:, :, 2:, 8:32], "silu")
    _check(torch.randn(24, 6).t(), torch.randn(24, 6).t(), "gelu_erf")
    _check(torch.randn(6, 48)[:, ::2], torch.randn(6, 24), "gelu_tanh")
    _check(torch.randn(1, 24).expand(6, 24), torch.randn(6, 24), "relu")
    five = torch.randn(2, 4, 4, 4, 16)[:, ::2, ::2, ::2, ::2]
    _check(five, torch.randn(5, 2, 2, 2, 2, 8)[1], "gelu_tanh")


def test_extreme_values() -> None:
    gate = torch.tensor([-1e4, -60.0, -12.0, -0.0, 0.0, 1e-30, 12.0, 60.0, 1e4, 3e38, -3e38])
    up, grad = torch.full_like(gate, 2.0), torch.ones_like(gate)
    for activation in ACTIVATIONS:
        out, d_gate, d_up = (poisoned((gate.numel(),)) for _ in range(3))
        gated_forward(gate, up, out, activation)
        gated_backward(grad, gate, up, d_gate, d_up, activation)
        gate64 = gate.double().requires_grad_()
        right = gated_reference(gate64, up.double(), activation)
        (slope,) = torch.autograd.grad(right.sum(), gate64)
        finite = gate.abs() < 1e38
        torch.testing.assert_close(
            out[finite].double(), right.detach()[finite], rtol=1e-6, atol=1e-6
        )
        torch.testing.assert_close(d_gate[finite].double(), slope[finite], rtol=1e-5, atol=1e-6)
        assert not torch.cat((out, d_gate, d_up)).isnan().any()


def test_nan_goes_through() -> None:
    gate = torch.tensor([float("nan"), 1.0])
    for activation in ACTIVATIONS:
        out, d_gate, d_up = torch.zeros(2), torch.zeros(2), torch.zeros(2)
        gated_forward(gate, torch.ones(2), out, activation)
        gated_backward(torch.ones(2), gate, torch.ones(2), d_gate, d_up, activation)
        assert out.isnan().tolist() == [True, False]
        assert d_up.isnan().tolist() == [True, False]


def test_public_names_and_autograd() -> None:
    gate, up = torch.randn(4, 24, requires_grad=True), torch.randn(4, 24, requires_grad=True)
    for mine, activation in (
        (lambda: geglu(gate, up), "gelu_tanh"),
        (lambda: geglu(gate, up, approximate="none"), "gelu_erf"),
        (lambda: swiglu(gate, up), "silu"),
        (lambda: reglu(gate, up), "relu"),
        (lambda: gated(gate, up, "swish"), "silu"),
    ):
        right = gated_reference(gate, up, activation)
        torch.testing.assert_close(mine(), right)
        wanted = torch.autograd.grad(right.sum(), (gate, up))
        for got, want in zip(torch.autograd.grad(mine().sum(), (gate, up)), wanted, strict=True):
            torch.testing.assert_close(got, want)


def test_empty() -> None:
    gate = torch.empty(0, 8, requires_grad=True)
    out = geglu(gate, torch.empty(0, 8))
    out.sum().backward()
    assert out.shape == gate.grad.shape == (0, 8)
