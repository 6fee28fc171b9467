# mypy: ignore-errors
"""The down projection for a few rows: `y = a W^T` split along its depth, summed in a fixed order.

With a few rows the time is that of reading the weights once. SPLIT programs share the depth, so
that every multiprocessor has enough loads in flight. Each writes its partial sum; the last program
at a tile adds them in a fixed order, so that repeated runs are bitwise identical, without a second
kernel.
"""

import triton
import triton.language as tl

from foretrace.kernels.device.projection import product


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
