"""The warp-specialised matmuls as functions over tensors, for Hopper: see `pingpong`.

The host describes every tensor to TMA, since a kernel takes 2 us to do so for itself. Sizes and
tiles are as in `products`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from foretrace.kernels.case import SHORT, CallCase, Tile
from foretrace.kernels.device.launch import Launch, TmaPlace, Variant
from foretrace.kernels.device.pingpong import (
    REGISTERS,
    gate_up_pingpong_kernel,
    gradient_pingpong_kernel,
    whole_pingpong_kernel,
)
from foretrace.kernels.device.products import count_tiles, multiprocessors, takes_tma
from foretrace.kernels.device.workspace import counters


def may_specialise(case: CallCase) -> bool:
    """Whether the warp-specialised kernels run where a case is, on elements like its own."""
    return case.dtype in SHORT and _hopper(case.device)


def takes_pingpong(case: CallCase) -> bool:
    """Whether the warp-specialised kernels take a case: as TMA does, and on Hopper alone."""
    return _hopper(case.device) and takes_tma(case)


# Devices of which a context has too few multiprocessors for all programs of a launch at once.
_shared: set[int] = set()


def gate_up_pingpong(case: CallCase, tile: Tile, save: str, step: int) -> Launch:
    """As `gate_up_tma`, warp-specialised. Needs `takes_pingpong`.

    `save` says what `pre` gets: "products", or "factors" (`math.factors`); "" for nothing. `step`
    is from one row of the activations to the next, in elements.
    """
    m, d, h = case.size
    x_row, gate_row, up_row, _ = case.rows
    weights = (tile.bn, tile.bk)
    places = (
        TmaPlace(0, (m, d), (x_row, 1), (tile.bm, tile.bk)),
        TmaPlace(1, (h, d), (gate_row, 1), weights),
        TmaPlace(2, (h, d), (up_row, 1), weights),
        *_written(3, 4, m, h, step, _block(tile, save), save),
    )
    variant = _tiled(gate_up_pingpong_kernel, case.dtype, tile, case.activation, save)
    return _bound(variant, case, places, tile)


def whole_pingpong(case: CallCase, tile: Tile, save: str) -> Callable[..., bool]:
    """Gate, up and down in one launch, as a function of x, gate, up, down, middle, pre and y:
    `middle` gets the activations, `y` (m, d) the result, and `pre` what `save` says, as in
    `gate_up_pingpong`.

    Needs `takes_pingpong`. False where its programs cannot all run at once, as in a green context:
    nothing was launched, and nothing is tried again on that device.
    """
    m, d, h = case.size
    x_row, gate_row, up_row, down_row = case.rows
    high, wide = (tile.bm, tile.bk), (tile.bn, tile.bk)
    block = _block(tile, save)
    places = (
        TmaPlace(0, (m, d), (x_row, 1), high),
        TmaPlace(1, (h, d), (gate_row, 1), wide),
        TmaPlace(2, (h, d), (up_row, 1), wide),
        TmaPlace(4, (m, h), (h, 1), high),
        TmaPlace(3, (d, h), (down_row, 1), (2 * tile.bn, tile.bk)),
        *_written(4, 5, m, h, h, block, save),
        TmaPlace(6, (m, d), (d, 1), block),
    )
    # Programs wait for each other: all of them must run at once.
    variant = _tiled(whole_pingpong_kernel, case.dtype, tile, case.activation, save, together=True)
    run, count = _bound(variant, case, places, tile, others=1), 2 * -(-m // tile.bm)

    def launch(*tensors: Tensor) -> bool:
        if case.device in _shared:
            return False
        try:
            run(*tensors, counters(tensors[0], count))
        except RuntimeError as error:
            if "cooperative launch" not in str(error):
                raise
            _shared.add(case.device)
            return False
        return True

    return launch


def gradient_pingpong(case: CallCase, tile: Tile, activation: str) -> Launch:
    """As `gradient_tma`, warp-specialised. Needs `takes_pingpong`."""
    m, d, h = case.size
    block = (tile.bm // 2, tile.bn // 2)
    places = (
        TmaPlace(0, (m, d), (d, 1), (tile.bm, tile.bk)),
        TmaPlace(1, (d, h), (case.rows[3], 1), (tile.bk, tile.bn)),
        *_pair(2, m, h, block),
        *_pair(3, m, h, block),
    )
    variant = _tiled(gradient_pingpong_kernel, case.dtype, tile, activation)
    return _bound(variant, case, places, tile)


def _block(tile: Tile, save: str) -> tuple[int, int]:
    """What leaves at once: half the rows where more than activations leaves."""
    return tile.bm // 2 if save else tile.bm, tile.bn


def _written(
    out: int, pre: int, m: int, h: int, step: int, block: tuple[int, int], save: str
) -> tuple[TmaPlace, ...]:
    """The activations and what is kept; without `save`, a kernel does not use the last two."""
    activations = TmaPlace(out, (m, h), (step, 1), block)
    return activations, *(_pair(pre, m, h, block) if save else (activations, activations))


def _pair(which: int, m: int, h: int, block: tuple[int, int]) -> tuple[TmaPlace, TmaPlace]:
    """The left and the right half of an (m, 2h) tensor."""
    shape, strides = (m, h), (2 * h, 1)
    return TmaPlace(which, shape, strides, block), TmaPlace(which, shape, strides, block, h)


def _bound(
    variant: Variant, case: CallCase, places: tuple[TmaPlace, ...], tile: Tile, others: int = 0
) -> Launch:
    m, d, h = case.size
    grid = min(count_tiles(m, h, tile), multiprocessors(case.device) * tile.resident)
    return variant.bound_to(grid, case.device, places, (m, h, d), _described, others)


def _described(tensor: Tensor, place: TmaPlace) -> TensorDescriptor:
    dtype = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16}[tensor.dtype]
    layout = gl.NVMMASharedLayout.get_default_for(list(place.block_shape), dtype)
    start = tensor.flatten()[place.offset :] if place.offset else tensor
    return TensorDescriptor(start, place.shape, place.strides, list(place.block_shape), layout)


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
