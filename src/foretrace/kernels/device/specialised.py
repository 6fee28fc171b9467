"""The warp-specialised matmuls as functions over tensors, for Hopper: see `pingpong`.

The host describes every tensor to TMA, since a kernel takes 2 us to do so for itself. Sizes and
tiles are as in `products`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from foretrace.kernels.device.gate_up_pingpong import gate_up_pingpong_kernel
from foretrace.kernels.device.gradient_pingpong import gradient_pingpong_kernel
from foretrace.kernels.device.launch import Variant
from foretrace.kernels.device.pingpong import REGISTERS
from foretrace.kernels.device.products import (
    SHORT,
    Size,
    Tile,
    count_tiles,
    multiprocessors,
    takes_tma,
)
from foretrace.kernels.device.whole_pingpong import whole_pingpong_kernel
from foretrace.kernels.device.workspace import counters


class _Described(NamedTuple):
    """What a launch reads of a descriptor. Triton's own class checks its fields at every call."""

    base: Tensor
    shape: tuple[int, int]
    strides: tuple[int, int]
    block_shape: tuple[int, int]
    padding: str = "zero"

    def checked(self) -> TensorDescriptor:
        """As Triton takes it when it compiles."""
        dtype = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16}[self.base.dtype]
        layout = gl.NVMMASharedLayout.get_default_for(list(self.block_shape), dtype)
        return TensorDescriptor(self.base, self.shape, self.strides, list(self.block_shape), layout)


def may_specialise(like: Tensor) -> bool:
    """Whether the warp-specialised kernels run where `like` is, on elements like its own."""
    return like.dtype in SHORT and _hopper(like.get_device())


def takes_pingpong(*matrices: Tensor) -> bool:
    """Whether the warp-specialised kernels take these: as TMA does, and on Hopper alone."""
    return _hopper(matrices[0].get_device()) and takes_tma(*matrices)


# Devices of which a context has too few multiprocessors for all programs of a launch at once.
_shared: set[int] = set()


def takes_whole(*matrices: Tensor) -> bool:
    """As `takes_pingpong`, for a launch whose programs wait for each other."""
    return matrices[0].get_device() not in _shared and takes_pingpong(*matrices)


def gate_up_pingpong(
    x: Tensor, w_gate: Tensor, w_up: Tensor, out: Tensor, pre: Tensor | None,
    activation: str, size: Size, tile: Tile, save: str,
) -> None:  # fmt: skip
    """As `gate_up_tma`, warp-specialised. Needs `takes_pingpong(x, w_gate, w_up, out)`.

    `save` says what `pre` gets: "products", or "factors" (`math.factors`); "" where it is None.
    """
    m, d, h = size
    weights = (tile.bn, tile.bk)
    described = (
        _Described(x, (m, d), (x.stride(-2), 1), (tile.bm, tile.bk)),
        _Described(w_gate, (h, d), (w_gate.stride(0), 1), weights),
        _Described(w_up, (h, d), (w_up.stride(0), 1), weights),
        *_written(out, pre, m, h, _block(tile, pre)),
    )
    variant = _tiled(gate_up_pingpong_kernel, x.dtype, tile, activation, save)
    _launch(variant, described, size, tile)


def whole_pingpong(
    x: Tensor, weights: tuple[Tensor, Tensor, Tensor], middle: Tensor, pre: Tensor | None,
    y: Tensor, activation: str, size: Size, tile: Tile, save: str,
) -> bool:  # fmt: skip
    """Gate, up and down in one launch: `middle` gets the activations, `y` (m, d) the result, and
    `pre` what `save` says, as in `gate_up_pingpong`.

    Needs `takes_whole(x, *weights, middle, y)`. False where its programs cannot all run at once, as
    in a green context: nothing was launched, and `takes_whole` says so from then on.
    """
    m, d, h = size
    gate, up, down = weights
    high, wide = (tile.bm, tile.bk), (tile.bn, tile.bk)
    block = _block(tile, pre)
    described = (
        _Described(x, (m, d), (x.stride(-2), 1), high),
        _Described(gate, (h, d), (gate.stride(0), 1), wide),
        _Described(up, (h, d), (up.stride(0), 1), wide),
        _Described(middle, (m, h), (h, 1), high),
        _Described(down, (d, h), (down.stride(0), 1), (2 * tile.bn, tile.bk)),
        *_written(middle, pre, m, h, block),
        _Described(y, (m, d), (d, 1), block),
    )
    counts = counters(x, 2 * -(-m // tile.bm))
    # Programs wait for each other: all of them must run at once.
    variant = _tiled(whole_pingpong_kernel, x.dtype, tile, activation, save, together=True)
    try:
        _launch(variant, described, size, tile, counts)
    except RuntimeError as error:
        if "cooperative launch" not in str(error):
            raise
        _shared.add(x.get_device())
        return False
    return True


def gradient_pingpong(
    dy: Tensor, w_down: Tensor, pre: Tensor, grads: Tensor, activation: str, size: Size, tile: Tile
) -> None:
    """As `gradient_tma`, warp-specialised. Needs `takes_pingpong(dy, w_down, pre, grads)`."""
    m, d, h = size
    block = (tile.bm // 2, tile.bn // 2)
    described = (
        _Described(dy, (m, d), (dy.stride(-2), 1), (tile.bm, tile.bk)),
        _Described(w_down, (d, h), (w_down.stride(0), 1), (tile.bk, tile.bn)),
        *_pair(pre, m, h, block),
        *_pair(grads, m, h, block),
    )
    variant = _tiled(gradient_pingpong_kernel, dy.dtype, tile, activation)
    _launch(variant, described, size, tile)


def _block(tile: Tile, pre: Tensor | None) -> tuple[int, int]:
    """What leaves at once: half the rows where more than activations leaves."""
    return tile.bm if pre is None else tile.bm // 2, tile.bn


def _written(
    out: Tensor, pre: Tensor | None, m: int, h: int, block: tuple[int, int]
) -> tuple[_Described, ...]:
    """The activations and what is kept; without `pre`, a kernel does not use the last two."""
    activations = _Described(out, (m, h), (h, 1), block)
    kept = (activations, activations) if pre is None else _pair(pre, m, h, block)
    return activations, *kept


def _pair(both: Tensor, m: int, h: int, block: tuple[int, int]) -> tuple[_Described, _Described]:
    """The left and the right half of an (m, 2h) tensor."""
    shape, strides = (m, h), (2 * h, 1)
    right = both.view(m, 2 * h)[:, h:]
    return _Described(both, shape, strides, block), _Described(right, shape, strides, block)


def _launch(
    variant: Variant, described: tuple[_Described, ...], size: Size, tile: Tile, *others: Tensor
) -> None:
    m, d, h = size
    device = described[0].base.get_device()
    grid = min(count_tiles(m, h, tile), multiprocessors(device) * tile.resident)
    variant.launch_described(grid, device, described, (*others, m, h, d))


@lru_cache
def _tiled(
    kernel: Any, dtype: torch.dtype, tile: Tile, *chosen: str, together: bool = False
) -> Variant:
    """A kernel for one dtype; what was chosen comes first of its constexprs, then the tile."""
    cut = (tile.bm, tile.bn, tile.bk, tile.group, tile.stages, tile.split)
    how = {**options(tile), **({"launch_cooperative_grid": True} if together else {})}
    return Variant(kernel, (*chosen, *cut), how)


def options(tile: Tile) -> dict[str, Any]:
    """Launch options; the kernel itself knows its stages."""
    return {"num_warps": tile.warps, "maxnreg": REGISTERS, "enable_fp_fusion": True}


@lru_cache
def _hopper(device: int) -> bool:
    return device >= 0 and torch.cuda.get_device_capability(device)[0] == 9
