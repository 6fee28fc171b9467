# mypy: ignore-errors
"""The activation's gradient in the epilogue of `dm = dy Wd`: the gradients of gate and up.

Unfused, the matmul writes `dm` and a pointwise kernel reads it; here it stays in registers. The
epilogue processes the tile in four parts, which fit in registers with the accumulator, and loads
the pre-activations of a part one part ahead. It is faster at some sizes only: on an H200 the
epilogue's memory traffic adds to the matmul's time instead of overlapping. `docs/results.md`
lists what was tried.
"""

import triton
import triton.language as tl

from foretrace.kernels.device.math import gradients
from foretrace.kernels.device.projection import product, tile_at


@triton.jit
def _halves(acc, BM: tl.constexpr, BN: tl.constexpr):
    return tl.split(acc.reshape(BM, 2, BN // 2).permute(0, 2, 1))


@triton.jit
def _read(pre, row, col, m, h, BM: tl.constexpr, BN: tl.constexpr):
    """The offsets of a part in the (m, 2h) tensors, its mask, and its gate and up values."""
    rows = (row + tl.arange(0, BM)).to(tl.int64)[:, None]
    cols = (col + tl.arange(0, BN)).to(tl.int64)[None, :]
    mask = (rows < m) & (cols < h)
    at = rows * (2 * h) + cols
    return at, mask, tl.load(pre + at, mask, other=0.0), tl.load(pre + h + at, mask, other=0.0)


@triton.jit
def _write(dm, grads, h, at, mask, gate, up, ACT: tl.constexpr):
    d_gate, d_up = gradients(dm, gate.to(tl.float32), up.to(tl.float32), ACT, False)
    tl.store(grads + at, d_gate.to(grads.dtype.element_ty), mask)
    tl.store(grads + h + at, d_up.to(grads.dtype.element_ty), mask)


@triton.jit(do_not_specialize=["m", "h8", "d", "dy_row", "w_row"])
def gradient_tma_kernel(
    dy, w, pre, grads,
    m: tl.int32, h8: tl.int32, d: tl.int32, dy_row: tl.int64, w_row: tl.int64,
    ACT: tl.constexpr, UPCAST: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """`w` is the down weight (d, h), h = 8 `h8`; `pre` and `grads` are (m, 2h), gate first."""
    h = h8 * 8
    Q: tl.constexpr = BN // 4
    dy_tiles = tl.make_tensor_descriptor(dy, [m, d], [dy_row, 1], [BM, BK])
    w_tiles = tl.make_tensor_descriptor(w, [d, h], [w_row, 1], [BK, BN])
    tiles_m = tl.cdiv(m, BM)
    tiles_n = tl.cdiv(h, BN)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        row, col = tile_at(tile, tiles_m, tiles_n, GROUP)
        acc = tl.zeros([BM, BN], tl.float32)
        for k in range(tl.cdiv(d, BK)):
            acc = product(
                dy_tiles.load([row * BM, k * BK]), w_tiles.load([k * BK, col * BN]), acc, UPCAST
            )
        left, right = _halves(acc, BM, BN)
        dm0, dm1 = _halves(left, BM, BN // 2)
        dm2, dm3 = _halves(right, BM, BN // 2)
        at0, mask0, gate0, up0 = _read(pre, row * BM, col * BN, m, h, BM, Q)
        at1, mask1, gate1, up1 = _read(pre, row * BM, col * BN + Q, m, h, BM, Q)
        _write(dm0, grads, h, at0, mask0, gate0, up0, ACT)
        at2, mask2, gate2, up2 = _read(pre, row * BM, col * BN + 2 * Q, m, h, BM, Q)
        _write(dm1, grads, h, at1, mask1, gate1, up1, ACT)
        at3, mask3, gate3, up3 = _read(pre, row * BM, col * BN + 3 * Q, m, h, BM, Q)
        _write(dm2, grads, h, at2, mask2, gate2, up2, ACT)
        _write(dm3, grads, h, at3, mask3, gate3, up3, ACT)
