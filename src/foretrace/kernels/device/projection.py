# mypy: ignore-errors
# ruff: noqa: RET505 (a branch on a constexpr is chosen at compile time only when it is an else)
"""Gate and up projections in one matmul, activation in its epilogue: `act(x Wg^T) * (x Wu^T)`.

`gate_up_tma_kernel` is for Hopper and newer: persistent, loads through TMA. One load brings the
gate rows and the up rows of a tile, so one 256-wide matmul fills both accumulators, and each
thread holds a gate value and its up value: the epilogue needs no exchange. `gate_up_kernel` loads
through pointers, for older GPUs, for sizes that TMA does not take, and for a few rows, where only
the number of weight bytes in flight matters. Both round once, at the end, and take sizes and
strides at run time.
"""

import triton
import triton.language as tl

from foretrace.kernels.device.math import activate


@triton.jit
def tile_at(tile, tiles_m, tiles_n, GROUP: tl.constexpr):
    """Row and column of a tile, in stripes of GROUP rows: a stripe's weights stay in L2."""
    per_stripe = GROUP * tiles_n
    first = (tile // per_stripe) * GROUP
    height = tl.minimum(tiles_m - first, GROUP)
    inside = tile % per_stripe
    return first + inside % height, inside // height


@triton.jit
def product(a, b, acc, UPCAST: tl.constexpr):
    """`acc + a b`. UPCAST is for the interpreter, which cannot multiply bf16."""
    if UPCAST:
        return tl.dot(a.to(tl.float32), b.to(tl.float32), acc, input_precision="ieee")
    else:
        return tl.dot(a, b, acc)


@triton.jit(do_not_specialize=["m", "h", "d", "x_row", "w_row", "w_pair"])
def gate_up_tma_kernel(
    x, w, out, pre,
    m: tl.int32, h: tl.int32, d: tl.int32, x_row: tl.int64, w_row: tl.int64, w_pair: tl.int64,
    ACT: tl.constexpr, SAVE: tl.constexpr, UP_FIRST: tl.constexpr, UPCAST: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """`w` is the lower weight in memory, `w_pair` elements before the other.

    SAVE also writes gate and up, before the activation, into `pre` (m, 2h), gate first.
    """
    dtype = out.dtype.element_ty
    x_tiles = tl.make_tensor_descriptor(x, [m, d], [x_row, 1], [BM, BK])
    w_tiles = tl.make_tensor_descriptor(w, [2, h, d], [w_pair, w_row, 1], [2, BN, BK])
    out_tiles = tl.make_tensor_descriptor(out, [m, h], [h.to(tl.int64), 1], [BM, BN])
    if SAVE:
        gate_tiles = tl.make_tensor_descriptor(pre, [m, h], [2 * h.to(tl.int64), 1], [BM, BN])
        up_tiles = tl.make_tensor_descriptor(pre + h, [m, h], [2 * h.to(tl.int64), 1], [BM, BN])
    tiles_m = tl.cdiv(m, BM)
    tiles_n = tl.cdiv(h, BN)
    # Flattened, the loads of the next tile are already under way while this tile's epilogue runs.
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        row, col = tile_at(tile, tiles_m, tiles_n, GROUP)
        acc = tl.zeros([BM, 2 * BN], tl.float32)
        for k in range(tl.cdiv(d, BK)):
            a = x_tiles.load([row * BM, k * BK])
            b = w_tiles.load([0, col * BN, k * BK]).reshape(2 * BN, BK)
            acc = product(a, b.T, acc, UPCAST)
        if UP_FIRST:
            up, gate = tl.split(acc.reshape(BM, 2, BN).permute(0, 2, 1))
        else:
            gate, up = tl.split(acc.reshape(BM, 2, BN).permute(0, 2, 1))
        if SAVE:
            gate_tiles.store([row * BM, col * BN], gate.to(dtype))
            up_tiles.store([row * BM, col * BN], up.to(dtype))
        out_tiles.store([row * BM, col * BN], (activate(gate, ACT, False) * up).to(dtype))


@triton.jit(do_not_specialize=["m", "h", "d", "x_row", "gate_row", "up_row"])
def gate_up_kernel(
    x, w_gate, w_up, out, pre,
    m: tl.int32, h: tl.int32, d: tl.int32, x_row: tl.int64, gate_row: tl.int64, up_row: tl.int64,
    ACT: tl.constexpr, SAVE: tl.constexpr, VEC: tl.constexpr, UPCAST: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """As above, one tile a program. `d` and the strides are given in units of VEC elements."""
    depth = d * VEC
    row, col = tile_at(tl.program_id(0), tl.cdiv(m, BM), tl.cdiv(h, BN), GROUP)
    rows = (row * BM + tl.arange(0, BM)).to(tl.int64)[:, None]
    cols = (col * BN + tl.arange(0, BN)).to(tl.int64)[:, None]
    ks = tl.arange(0, BK)[None, :]
    x_at = x + rows * (x_row * VEC) + ks
    gate_at = w_gate + cols * (gate_row * VEC) + ks
    up_at = w_up + cols * (up_row * VEC) + ks
    gate = tl.zeros([BM, BN], tl.float32)
    up = tl.zeros([BM, BN], tl.float32)
    for k in range(tl.cdiv(depth, BK)):
        inside = ks < depth - k * BK
        a = tl.load(x_at + k * BK, (rows < m) & inside, other=0.0)
        g = tl.load(gate_at + k * BK, (cols < h) & inside, other=0.0)
        u = tl.load(up_at + k * BK, (cols < h) & inside, other=0.0)
        gate = product(a, g.T, gate, UPCAST)
        up = product(a, u.T, up, UPCAST)
    cols = (col * BN + tl.arange(0, BN)).to(tl.int64)[None, :]
    mask = (rows < m) & (cols < h)
    dtype = out.dtype.element_ty
    if SAVE:
        tl.store(pre + rows * (2 * h) + cols, gate.to(dtype), mask)
        tl.store(pre + rows * (2 * h) + h + cols, up.to(dtype), mask)
    tl.store(out + rows * h + cols, (activate(gate, ACT, False) * up).to(dtype), mask)
