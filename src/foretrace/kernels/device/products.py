"""The matmuls with a gated activation in them, as functions over tensors.

Each takes a `Tile`. The best tile for a size is measured: see `foretrace.kernels.routes`. A tile
changes the speed, never the meaning of the result.

Sizes are (m, d, h): rows, model width, hidden width. Left operands are m rows; with more dimensions
they are contiguous. Callers pass the sizes, since reading them from a tensor costs host time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from foretrace.kernels.device.gradient import gradient_tma_kernel
from foretrace.kernels.device.launch import Variant, interpreted
from foretrace.kernels.device.narrow import split_kernel
from foretrace.kernels.device.projection import gate_up_kernel, gate_up_tma_kernel
from foretrace.kernels.device.workspace import memory_for_sums

# The tensor memory accelerator addresses 16-byte units, and strides below 2^40 bytes.
_UNIT = 16
_REACH = 1 << 40
SHORT = (torch.bfloat16, torch.float16)


Size = tuple[int, int, int]


class Tile(NamedTuple):
    """How a matmul is cut: rows, columns, depth; pipeline stages, warps, rows of tiles per stripe.

    `resident` is programs per multiprocessor (persistent kernels). `split` is parts of the depth
    (narrow matmuls), or how many buffers an epilogue has (specialised matmuls).
    """

    bm: int
    bn: int
    bk: int
    stages: int
    warps: int
    group: int = 8
    resident: int = 1
    split: int = 1

    def options(self) -> dict[str, Any]:
        """Triton's launch options."""
        return {"num_warps": self.warps, "num_stages": self.stages, "enable_fp_fusion": True}


def takes_tma(*matrices: Tensor) -> bool:
    """Whether TMA can address these: 16-bit elements, rows on the 16-byte grid, Hopper or newer."""
    first = matrices[0]
    hopper = first.is_cuda and _capability(first.get_device())[0] >= 9
    if not hopper and not interpreted(gate_up_tma_kernel):
        return False
    for t in matrices:  # a loop: a generator costs more host time
        if t.dtype not in SHORT or t.stride(-1) != 1:
            return False
        if t.data_ptr() % _UNIT or (t.shape[-1] | t.stride(-2)) & 7:
            return False
    return True


def takes_pair(w_gate: Tensor, w_up: Tensor) -> bool:
    """Whether two weights can be addressed as one tensor: equal strides, and close enough."""
    way = abs(w_up.data_ptr() - w_gate.data_ptr())
    return bool(w_gate.stride() == w_up.stride() and way % _UNIT == 0 and 0 < way < _REACH)


def gate_up_tma(
    x: Tensor, w_gate: Tensor, w_up: Tensor, out: Tensor, pre: Tensor | None,
    activation: str, size: Size, tile: Tile,
) -> None:  # fmt: skip
    """`out = act(x w_gate^T) * (x w_up^T)`, and the two matmuls side by side in `pre` if given.

    Needs `takes_tma(x, w_gate, w_up, out)` and `takes_pair(w_gate, w_up)`.
    """
    m, d, h = size
    way = w_up.data_ptr() - w_gate.data_ptr()
    # Two tensors anywhere in memory are one (2, h, d) tensor to TMA, given the stride between them.
    lower = w_gate if way > 0 else w_up
    save = pre is not None
    variant = _tiled(gate_up_tma_kernel, x.dtype, tile, activation, save, way < 0)
    grid = _persistent(x, count_tiles(m, h, tile), tile)
    sizes = (m, h, d, x.stride(-2), w_gate.stride(0), abs(way) // x.element_size())
    variant.launch(grid, (x, lower, out, out if pre is None else pre), sizes)


def gate_up(
    x: Tensor, w_gate: Tensor, w_up: Tensor, out: Tensor, pre: Tensor | None,
    activation: str, size: Size, tile: Tile,
) -> None:  # fmt: skip
    """As `gate_up_tma`, through pointers: any inputs whose rows are contiguous."""
    m, d, h = size
    x_row, gate_row, up_row = x.stride(-2), w_gate.stride(0), w_up.stride(0)
    vec = 1 if (d | x_row | gate_row | up_row) & 7 else 8
    variant = _tiled(gate_up_kernel, x.dtype, tile, activation, pre is not None, vec)
    sizes = (m, h, d // vec, x_row // vec, gate_row // vec, up_row // vec)
    variant.launch(
        count_tiles(m, h, tile), (x, w_gate, w_up, out, out if pre is None else pre), sizes
    )


def gradient_tma(
    dy: Tensor, w_down: Tensor, pre: Tensor, grads: Tensor, activation: str, size: Size, tile: Tile
) -> None:
    """The gradients of gate and up into `grads`, from `dy`, that of the down projection's output.

    Needs `takes_tma(dy, w_down, pre, grads)`.
    """
    m, d, h = size
    grid = _persistent(dy, count_tiles(m, h, tile), tile)
    sizes = (m, h // 8, d, dy.stride(-2), w_down.stride(0))
    variant = _tiled(gradient_tma_kernel, dy.dtype, tile, activation)
    variant.launch(grid, (dy, w_down, pre, grads), sizes)


def narrow_product(a: Tensor, w: Tensor, out: Tensor, size: Size, tile: Tile) -> None:
    """`out = a w^T`, the down projection, for few rows; `a` begins with the m rows."""
    m, n, k = size
    w_row = w.stride(0)
    vec = 1 if (k | w_row) & 7 else 8
    tiles = count_tiles(m, n, tile)
    partial = arrived = out
    if tile.split > 1:
        partial, arrived = memory_for_sums(a, tiles * tile.split * tile.bm * tile.bn, tiles)
    sizes = (m, n, k // vec, k // vec, w_row // vec)
    _narrow(a.dtype, vec, tile).launch(tiles * tile.split, (a, w, out, partial, arrived), sizes)


@lru_cache
def _tiled(kernel: Any, dtype: torch.dtype, tile: Tile, *chosen: str | bool | int) -> Variant:
    """A kernel for one dtype; what was chosen comes first of its constexprs, then the tile."""
    fixed = (*chosen, interpreted(kernel), tile.bm, tile.bn, tile.bk, tile.group)
    return Variant(kernel, fixed, tile.options())


@lru_cache
def _narrow(dtype: torch.dtype, vec: int, tile: Tile) -> Variant:
    fixed = (vec, interpreted(split_kernel), tile.split, tile.bm, tile.bn, tile.bk)
    return Variant(split_kernel, fixed, tile.options())


def count_tiles(m: int, n: int, tile: Tile) -> int:
    """Tiles of an (m, n) result."""
    return -(-m // tile.bm) * -(-n // tile.bn)


def _persistent(like: Tensor, tiles: int, tile: Tile) -> int:
    # Triton keeps the allocator of descriptors per thread, and autograd has its own threads.
    triton.set_allocator(_scratch)
    return min(tiles, multiprocessors(like.get_device()) * tile.resident)


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
