# mypy: ignore-errors
"""Copies a matrix into longer rows and more of them, with zeros beyond its end, in one pass.

Tensor cores take rows on the 16-byte grid. Matmuls with other rows run several times slower, so
that from a few hundred rows on a copy of everything pays.
"""

from functools import lru_cache

import torch
import triton
import triton.language as tl

from foretrace.kernels.device.launch import Launch, Variant

_BLOCK = 2048

Shape = tuple[int, int]


# The source may lie anywhere: nothing is assumed about its address.
@triton.jit(do_not_specialize=["source", "rows", "cols", "step", "wide", "blocks"])
def pad_kernel(
    source, out, rows: tl.int64, cols: tl.int64, step: tl.int64, wide: tl.int64, blocks: tl.int64,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """`wide` is a row of `out` in units of 8 elements; `blocks` is programs per row."""
    row = tl.program_id(0).to(tl.int64) // blocks
    at = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    inside = tl.where(row < rows, cols, 0)
    value = tl.load(source + row * step + at, at < inside, other=0.0)
    tl.store(out + row * (wide * 8) + at, value, at < wide * 8)


def pad(device: int, dtype: torch.dtype, shape: Shape, step: int, out: Shape) -> Launch:
    """Copies a matrix of this shape, with `step` elements from row to row, to the start of one of
    the shape `out`, whose columns are a multiple of 8, and zeros beyond.
    """
    rows, cols = out
    blocks = -(-cols // _BLOCK)
    variant = _variant(dtype)
    return variant.bound(rows * blocks, device, (*shape, step, cols // 8, blocks))


@lru_cache
def _variant(dtype: torch.dtype) -> Variant:
    return Variant(pad_kernel, (_BLOCK,), {"num_warps": 4}, anywhere=True)
