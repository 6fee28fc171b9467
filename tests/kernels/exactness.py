"""How close is close enough: the rule every kernel here is judged by."""

from __future__ import annotations

import torch
from torch import Tensor

# Below this many elements the largest error of either is luck; their norm is compared in its place.
FEW = 4096


def assert_as_good_as_torch(
    out: Tensor, torch_out: Tensor, reference: Tensor, ulps: int = 0
) -> None:
    """`|out - ref| < 2 |torch - ref| + 1e-6`, in the largest element, or root mean square of few;
    `ref` is float64.

    The interpreter truncates where a GPU rounds to nearest: `ulps` allows that many units in the
    last place more.
    """
    assert out.shape == reference.shape
    assert not out.isnan().any()
    if out.numel() == 0:
        return
    error = _size(out.double() - reference)
    allowed = 2 * _size(torch_out.double() - reference) + 1e-6
    allowed += ulps * torch.finfo(out.dtype).eps * reference.abs().max().item()
    assert error < allowed, f"error {error:.3e}, allowed {allowed:.3e}"


def _size(difference: Tensor) -> float:
    few = difference.numel() < FEW
    return (difference.square().mean().sqrt() if few else difference.abs().max()).item()


def poisoned(shape: tuple[int, ...], **options: object) -> Tensor:
    """A tensor of NaNs: what a kernel does not write shows."""
    return torch.full(shape, float("nan"), **options)
