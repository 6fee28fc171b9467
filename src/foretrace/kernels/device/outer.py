# mypy: ignore-errors
"""The weight gradients of a few rows: sums of outer products, in one launch.

There is next to nothing to compute: the time is that of writing the gradients, once. On an H200 the
vendor's matmul takes 3.4 times as long at 1 row of 4608x13824, 1.35 times at 16, 1.1 at 32.
"""

import triton
import triton.language as tl

from foretrace.kernels.device.projection import product


@triton.jit
def _outer(
    left, left_row, right, right_row, out, m, height, width, tile,
    UPCAST: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """A tile of `out = left^T right`, of m rows each."""
    tiles_n = tl.cdiv(width, BN)
    i = ((tile // tiles_n) * BM + tl.arange(0, BM)).to(tl.int64)
    j = ((tile % tiles_n) * BN + tl.arange(0, BN)).to(tl.int64)
    row = tl.arange(0, BK)[:, None]
    some = row < m
    a = tl.load(left + row * left_row + i[None, :], some & (i < height)[None, :], other=0.0)
    b = tl.load(right + row * right_row + j[None, :], some & (j < width)[None, :], other=0.0)
    total = product(a.T, b, tl.zeros([BM, BN], tl.float32), UPCAST)
    inside = (i < height)[:, None] & (j < width)[None, :]
    # Nothing reads the gradients soon: they need not push the weights out of L2.
    tl.store(
        out + i[:, None] * width + j[None, :], total.to(out.dtype.element_ty), inside,
        cache_modifier=".cs",
    )  # fmt: skip


@triton.jit(
    do_not_specialize=["m", "d", "h", "x_row", "grad_row", "middle_row", "shift", "out_shift"]
)
def outer_kernel(
    gate_grad, up_grad, x, dy, middle, gate, up, down,
    m: tl.int32, d: tl.int32, h: tl.int32, x_row: tl.int64, grad_row: tl.int64,
    middle_row: tl.int64, shift: tl.int64, out_shift: tl.int64,
    VEC: tl.constexpr, UPCAST: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """The gradients of gate and up, (h, d), and of down, (d, h).

    At most BK rows. Sizes but `m` are in units of VEC elements. The gradients of up are read
    `shift` after `up_grad`, and written `out_shift` after `up`: one tensor may hold both.
    """
    wide = d * VEC
    deep = h * VEC
    tiles = tl.cdiv(deep, BM) * tl.cdiv(wide, BN)
    tile = tl.program_id(0)
    if tile < tiles:
        _outer(
            gate_grad, grad_row * VEC, x, x_row * VEC, gate, m, deep, wide, tile,
            UPCAST, BM, BN, BK,
        )  # fmt: skip
    elif tile < 2 * tiles:
        _outer(
            up_grad + shift * VEC, grad_row * VEC, x, x_row * VEC, up + out_shift * VEC,
            m, deep, wide, tile - tiles, UPCAST, BM, BN, BK,
        )  # fmt: skip
    else:
        _outer(
            dy, wide, middle, middle_row * VEC, down, m, wide, deep, tile - 2 * tiles,
            UPCAST, BM, BN, BK,
        )  # fmt: skip
