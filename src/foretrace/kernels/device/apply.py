"""Launching the pointwise kernels over tensors of any layout.

Several tensors of one shape are viewed as (outer, rows, columns) without a copy.

Dimensions that are contiguous with each other in every tensor merge. Contiguous tensors are a
single row, the halves of a packed tensor rows with a stride, a batch of halves a third dimension.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from foretrace.kernels.case import CallCase
from foretrace.kernels.device.launch import Launch, Variant
from foretrace.kernels.device.pointwise import (
    backward_flat_kernel,
    backward_packed_kernel,
    backward_strided_kernel,
    factors_packed_kernel,
    forward_flat_kernel,
    forward_packed_kernel,
    forward_strided_kernel,
)

Shape = tuple[int, ...]


class StridedView(NamedTuple):
    """Sizes (outer, rows, columns), and for each tensor its strides over them in the same order."""

    outer: int
    rows: int
    cols: int
    strides: tuple[tuple[int, int, int], ...]

    def divisible_by(self, count: int) -> bool:
        """Whether columns are adjacent and the rest divisible by `count`: loads can be as wide."""
        return self.cols % count == 0 and all(
            col == 1 and row % count == 0 and outer % count == 0 for outer, row, col in self.strides
        )

    @property
    def adjacent(self) -> bool:
        """Whether the columns of every tensor lie side by side."""
        return all(col == 1 for _, _, col in self.strides)


@lru_cache(maxsize=1024)
def view_of(sizes: Shape, strides: tuple[Shape, ...]) -> StridedView | None:
    """The view of tensors of shape `sizes` with these strides; None when it needs more dimensions.

    Dimensions are ordered by the strides of the last tensor, the output: a transposed pair gives a
    transposed result, and all three then merge into one row.
    """
    dims = [(size, [s[axis] for s in strides]) for axis, size in enumerate(sizes) if size != 1]
    dims.sort(key=lambda dim: dim[1][-1], reverse=True)
    merged: list[tuple[int, list[int]]] = []
    for size, steps in dims:
        if merged and all(
            before == step * size for before, step in zip(merged[-1][1], steps, strict=True)
        ):
            merged[-1] = (merged[-1][0] * size, steps)
        else:
            merged.append((size, steps))
    if len(merged) > 3:
        return None
    padded = [(1, [0] * len(strides))] * (3 - len(merged)) + merged
    if not merged:
        padded[-1] = (1, [1] * len(strides))
    (outer, a), (rows, b), (cols, c) = padded
    return StridedView(outer, rows, cols, tuple(zip(a, b, c, strict=True)))


# Elements a program handles, and its warps. On an H200 512 to 4096 elements ran within 1% of each
# other.
_BLOCK = 1024
_OPTIONS = {"num_warps": 4, "enable_fp_fusion": True}
# Strided tiles (least columns, rows, columns): narrow tensors take several rows at once.
_TILES = ((512, 1, 1024), (64, 8, 128), (0, 64, 16))


def gated_forward(gate: Tensor, up: Tensor, out: Tensor, activation: str) -> None:
    """Write `act(gate) * up` into `out`. All of one shape and dtype, any strides."""
    if gate.is_contiguous() and up.is_contiguous() and out.is_contiguous():
        _run_flat(forward_flat_kernel, (gate, up, out), activation)
    else:
        _run_strided(forward_strided_kernel, (gate, up, out), activation)


def gated_backward(
    grad: Tensor, gate: Tensor, up: Tensor, grad_gate: Tensor, grad_up: Tensor, activation: str
) -> None:
    """Write the gradients of `act(gate) * up` into `grad_gate` and `grad_up`."""
    tensors = (grad, gate, up, grad_gate, grad_up)
    if all(tensor.is_contiguous() for tensor in tensors):
        _run_flat(backward_flat_kernel, tensors, activation)
    else:
        _run_strided(backward_strided_kernel, tensors, activation)


def gated_apart(case: CallCase, step: int) -> Launch:
    """`gated_forward` over gate, up and out of a case, (m, h), with `step` elements from row to
    row; what lies between rows is computed too.
    """
    return _apart(forward_flat_kernel, case, step)


def gradients_apart(case: CallCase, step: int) -> Launch:
    """`gated_backward` over such tensors of a case; grad may be overwritten."""
    return _apart(backward_flat_kernel, case, step)


def _apart(kernel: Any, case: CallCase, step: int) -> Launch:
    m, _, h = case.size
    count = (m - 1) * step + h
    vec = 1 if count & 7 else 8
    variant = _flat(kernel, case.dtype, case.activation, vec)
    return variant.bound(-(-count // _BLOCK), case.device, (count // vec,))


def packed_forward(case: CallCase, *, factors: bool) -> Launch:
    """Write `act(gate) * up` to the start of `out`, (m, h), for `pre` = (gate, up) (m, 2h), as a
    function of pre and out. `factors`: then write `math.factors` over `pre`.
    """
    kernel = factors_packed_kernel if factors else forward_packed_kernel
    return _packed(kernel, case, case.activation)


def packed_backward(case: CallCase, activation: str) -> Launch:
    """Write the gradients of gate and up into `grads` (m, 2h), from `grad` (m, h), as a function of
    grad, pre and grads, all contiguous.
    """
    return _packed(backward_packed_kernel, case, activation)


def _packed(kernel: Any, case: CallCase, activation: str) -> Launch:
    m, _, h = case.size
    vec = 1 if h & 7 else 8
    blocks = -(-h // _BLOCK)
    variant = _flat(kernel, case.dtype, activation, vec)
    return variant.bound(m * blocks, case.device, (h // vec, blocks))


@lru_cache
def _flat(kernel: Any, dtype: torch.dtype, activation: str, vec: int) -> Variant:
    return Variant(kernel, (activation, dtype == torch.float32, vec, _BLOCK), _OPTIONS)


def _run_flat(kernel: Any, tensors: tuple[Tensor, ...], activation: str) -> None:
    count = tensors[0].numel()
    if count:
        vec = 1 if count & 7 else 8
        _flat(kernel, tensors[0].dtype, activation, vec).launch(
            -(-count // _BLOCK), tensors, (count // vec,)
        )


@lru_cache
def _strided(
    kernel: Any, dtype: torch.dtype, activation: str, vec: int, adjacent: bool, rows: int, cols: int
) -> Variant:
    return Variant(
        kernel, (activation, dtype == torch.float32, vec, adjacent, rows, cols), _OPTIONS
    )


def _run_strided(kernel: Any, tensors: tuple[Tensor, ...], activation: str) -> None:
    first = tensors[0]
    if first.numel() == 0:
        return
    view = view_of(tuple(first.shape), tuple(tensor.stride() for tensor in tensors))
    if view is None:
        for slices in zip(*(tensor.unbind(0) for tensor in tensors), strict=True):
            _run_strided(kernel, slices, activation)
        return
    _, rows, cols = next(tile for tile in _TILES if view.cols >= tile[0])
    row_blocks, col_blocks = -(-view.rows // rows), -(-view.cols // cols)
    vec = 8 if view.divisible_by(8) else 1
    strides = [
        step // vec if axis < 2 else step
        for steps in view.strides
        for axis, step in enumerate(steps)
    ]
    variant = _strided(kernel, first.dtype, activation, vec, view.adjacent, rows, cols)
    sizes = (view.rows, view.cols // vec, row_blocks, col_blocks)
    variant.launch(view.outer * row_blocks * col_blocks, tensors, (*sizes, *strides))
