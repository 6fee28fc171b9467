"""The matmuls with a gated activation in them, as functions over tensors.

Each takes a `Tile`. The best tile for a size is measured: see `foretrace.kernels.routes`. A tile
changes the speed, never the meaning of the result.

Sizes are (m, d, h): rows, model width, hidden width. A `CallCase` fixes all but the tensors, so
that a call has nothing left to decide.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
import triton
from torch import Tensor

from foretrace.kernels.case import CallCase, Tile
from foretrace.kernels.device.launch import Launch, Variant, interpreted
from foretrace.kernels.device.matmuls import (
    gate_up_kernel,
    gate_up_tma_kernel,
    gradient_tma_kernel,
    outer_kernel,
    split_kernel,
)
from foretrace.kernels.device.workspace import memory_for_sums


def takes_tma(case: CallCase) -> bool:
    """Whether TMA can address all tensors of a case: on the 16-byte grid, Hopper or newer."""
    hopper = case.device >= 0 and _capability(case.device)[0] >= 9
    return (hopper or interpreted(gate_up_tma_kernel)) and case.on_grid()


def takes_pair(case: CallCase) -> bool:
    """Whether both weights can be addressed as one tensor: equal strides, at two places."""
    return case.order != 0 and case.rows[1] == case.rows[2]


def gate_up_tma(case: CallCase, tile: Tile, save: str) -> Launch:
    """`out = act(x w_gate^T) * (x w_up^T)`, and with `save` the two matmuls side by side in `pre`,
    as a function of x, w_gate, w_up, out and pre; without `save`, `pre` is any tensor.

    Needs `takes_tma` and `takes_pair`.
    """
    m, d, h = case.size
    behind = case.order > 0
    variant = _tiled(gate_up_tma_kernel, case.dtype, tile, case.activation, bool(save), not behind)
    grid = _persistent(case.device, count_tiles(m, h, tile), tile)
    sizes, item = (m, h, d, case.rows[0], case.rows[1]), case.dtype.itemsize

    def launch(x: Tensor, w_gate: Tensor, w_up: Tensor, out: Tensor, pre: Tensor) -> None:
        # Two tensors anywhere in memory are one (2, h, d) tensor to TMA, given the stride between.
        way = abs(w_up.data_ptr() - w_gate.data_ptr()) // item
        # Triton keeps the allocator of descriptors per thread, and autograd has its own threads.
        triton.set_allocator(_scratch)
        variant.launch(grid, (x, w_gate if behind else w_up, out, pre), (*sizes, way))

    return launch


def gate_up(case: CallCase, tile: Tile, save: str) -> Launch:
    """As `gate_up_tma`, through pointers: any inputs whose rows are contiguous."""
    m, d, h = case.size
    x_row, gate_row, up_row, _ = case.rows
    vec = 1 if (d | x_row | gate_row | up_row) & 7 else 8
    variant = _tiled(gate_up_kernel, case.dtype, tile, case.activation, bool(save), vec)
    sizes = (m, h, d // vec, x_row // vec, gate_row // vec, up_row // vec)
    return variant.bound(count_tiles(m, h, tile), case.device, sizes, aligned=case.aligned)


def gradient_tma(case: CallCase, tile: Tile, activation: str) -> Launch:
    """The gradients of gate and up into `grads`, from `dy`, that of the down projection's output:
    a function of dy, w_down, pre and grads. Needs `takes_tma`, and `dy` contiguous.
    """
    m, d, h = case.size
    grid = _persistent(case.device, count_tiles(m, h, tile), tile)
    variant = _tiled(gradient_tma_kernel, case.dtype, tile, activation)
    run = variant.bound(grid, case.device, (m, h // 8, d, d, case.rows[3]))

    def launch(*tensors: Tensor) -> None:
        triton.set_allocator(_scratch)
        run(*tensors)

    return launch


def narrow_product(case: CallCase, tile: Tile) -> Launch:
    """`out = a w^T`, the down projection, for few rows, as a function of a, w and out; `a` begins
    with the m rows.
    """
    m, n, k = case.size
    w_row = case.rows[3]
    vec = 1 if (k | w_row) & 7 else 8
    tiles = count_tiles(m, n, tile)
    sums = tiles * tile.split * tile.bm * tile.bn
    variant = _cut(split_kernel, case.dtype, tile, vec, tile.split)
    sizes = (m, n, k // vec, k // vec, w_row // vec)
    run = variant.bound(tiles * tile.split, case.device, sizes, aligned=case.aligned)
    if tile.split == 1:
        return lambda a, w, out: run(a, w, out, out, out)
    return lambda a, w, out: run(a, w, out, *memory_for_sums(a, sums, tiles))


def outer_products(case: CallCase, step: int, apart: bool) -> Callable[..., bool]:
    """The weight gradients of a few rows, as a function of the gradients of gate and of up, x, dy,
    the activations, and where those of gate, up and down go. It says whether it could launch.

    The activations have `step` elements from row to row, and so have the gradients where gate and
    up are `apart`. Otherwise one tensor holds those of both, (m, 2h), and one those of their
    weights, (2h, d).
    """
    m, d, h = case.size
    x_row = case.rows[0]
    vec = 1 if (d | h | x_row | step) & 7 else 8
    tile = Tile(64, 128, 16 if m <= 16 else 32, 1, 4)
    grad_row, shift = (step, 0) if apart else (2 * h, h)
    sizes = (d, h, x_row, grad_row, step, shift, shift * d)
    count = 2 * count_tiles(h, d, tile) + count_tiles(d, h, tile)
    variant = _cut(outer_kernel, case.dtype, tile, vec)
    integers = (m, *(n // vec for n in sizes))

    def launch(*tensors: Tensor) -> bool:
        if not variant.can_launch(tensors):
            return False
        variant.launch(count, tensors, integers)  # what a hook moved may lie anywhere
        return True

    return launch


@lru_cache
def _tiled(kernel: Any, dtype: torch.dtype, tile: Tile, *chosen: str | bool | int) -> Variant:
    """A kernel for one dtype; what was chosen comes first of its constexprs, then the tile."""
    fixed = (*chosen, interpreted(kernel), tile.bm, tile.bn, tile.bk, tile.group)
    return Variant(kernel, fixed, tile.options())


@lru_cache
def _cut(kernel: Any, dtype: torch.dtype, tile: Tile, *chosen: int) -> Variant:
    """As `_tiled`, for a kernel whose tiles come in any order."""
    fixed = (*chosen, interpreted(kernel), tile.bm, tile.bn, tile.bk)
    return Variant(kernel, fixed, tile.options())


def count_tiles(m: int, n: int, tile: Tile) -> int:
    """Tiles of an (m, n) result."""
    return -(-m // tile.bm) * -(-n // tile.bn)


def _persistent(device: int, tiles: int, tile: Tile) -> int:
    return min(tiles, multiprocessors(device) * tile.resident)


def _scratch(size: int, _alignment: int, _stream: int | None) -> Tensor:
    return torch.empty(size, dtype=torch.int8, device="cuda")


@lru_cache
def multiprocessors(device: int) -> int:
    """Of a GPU; few in the interpreter, so that every program walks several tiles."""
    if device < 0:
        return 2
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


@lru_cache
def _capability(device: int) -> tuple[int, int]:
    major, minor = torch.cuda.get_device_capability(device)
    return major, minor
