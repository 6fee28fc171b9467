# mypy: ignore-errors
# ruff: noqa: RET505 (a branch on a constexpr is chosen at compile time only when it is an else)
"""The matmuls of a gated MLP in Triton, with what is fused into them.

Gate and up projections in one matmul: `act(x Wg^T) * (x Wu^T)`.
`gate_up_tma_kernel` is for Hopper and newer: persistent, loads through TMA. One load brings the
gate rows and the up rows of a tile, so one 256-wide matmul fills both accumulators, and each
thread holds a gate value and its up value: the epilogue needs no exchange. `gate_up_kernel` loads
through pointers, for older GPUs, for sizes that TMA does not take, and for a few rows, where only
the number of weight bytes in flight matters. Both round once, at the end, and take sizes and
strides at run time.

The activation's gradient in the epilogue of `dm = dy Wd`: the gradients of gate and up.
Unfused, the matmul writes `dm` and a pointwise kernel reads it; here it stays in registers. The
epilogue processes the tile in four parts, which fit in registers with the accumulator, and loads
the pre-activations of a part one part ahead. It is faster at some sizes only: on an H200 the
epilogue's memory traffic adds to the matmul's time instead of overlapping. `docs/results.md`
lists what was tried.

The down projection for a few rows: `y = a W^T` split along its depth, summed in a fixed order.
With a few rows the time is that of reading the weights once. SPLIT programs share the depth, so
that every multiprocessor has enough loads in flight. Each writes its partial sum; the last program
at a tile adds them in a fixed order, so that repeated runs are bitwise identical, without a second
kernel.

The weight gradients of a few rows: sums of outer products, in one launch.
There is next to nothing to compute: the time is that of writing the gradients, once. On an H200 the
vendor's matmul takes 3.4 times as long at 1 row of 4608x13824, 1.35 times at 16, 1.1 at 32.
"""

import triton
import triton.language as tl

from foretrace.kernels.device.math import activate, gradients


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


@triton.jit(do_not_specialize=["m", "n", "k", "a_row", "w_row"])
def split_kernel(
    a, w, out, partial, arrived,
    m: tl.int32, n: tl.int32, k: tl.int32, a_row: tl.int64, w_row: tl.int64,
    VEC: tl.constexpr, SPLIT: tl.constexpr, UPCAST: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """`k` and strides are in units of VEC elements; `arrived` has a zero per tile, and keeps it."""
    depth = k * VEC
    tile = tl.program_id(0) // SPLIT
    part = tl.program_id(0) % SPLIT
    tiles_n = tl.cdiv(n, BN)
    rows = ((tile // tiles_n) * BM + tl.arange(0, BM)).to(tl.int64)[:, None]
    # Rows past the end are read as the last one and never stored: every address stays inside.
    cols = tl.minimum((tile % tiles_n) * BN + tl.arange(0, BN), n - 1).to(tl.int64)[:, None]
    ks = tl.arange(0, BK)[None, :]
    a_at = a + rows * (a_row * VEC) + ks
    w_at = w + cols * (w_row * VEC) + ks
    steps = tl.cdiv(depth, BK)
    acc = tl.zeros([BM, BN], tl.float32)
    for step in range(steps * part // SPLIT, steps * (part + 1) // SPLIT):
        inside = ks < depth - step * BK
        left = tl.load(a_at + step * BK, (rows < m) & inside, other=0.0)
        right = tl.load(w_at + step * BK, inside, other=0.0)
        acc = product(left, right.T, acc, UPCAST)
    cols = ((tile % tiles_n) * BN + tl.arange(0, BN)).to(tl.int64)[None, :]
    mask = (rows < m) & (cols < n)
    if SPLIT == 1:
        tl.store(out + rows * n + cols, acc.to(out.dtype.element_ty), mask)
    else:
        inner = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
        mine = partial + (tile.to(tl.int64) * SPLIT) * (BM * BN) + inner
        tl.store(mine + part * (BM * BN), acc)
        tl.debug_barrier()
        if tl.atomic_add(arrived + tile, 1, sem="acq_rel") == SPLIT - 1:
            total = tl.zeros([BM, BN], tl.float32)
            for other in tl.static_range(SPLIT):
                total += tl.load(mine + other * (BM * BN), cache_modifier=".cg")
            tl.store(out + rows * n + cols, total.to(out.dtype.element_ty), mask)
            tl.store(arrived + tile, 0)


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
