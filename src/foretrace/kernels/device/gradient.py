# mypy: ignore-errors
"""The gradients of gate and up inside the product they come from: `dm = dy Wd`, times the two factors forward kept.

Unfused, a memory-bound kernel follows the product, and the tensor cores wait for it. Here each program puts a finished
tile of `dm` aside, in a scratch tile of its own that stays in L2, and works it off in slices while the next tile's
product runs: reads, two multiplications and writes happen in the shadow of the tensor cores. They are so few because
forward kept `up act'(gate)` and `act(gate)`; with the activation's slope to compute here (30 instructions an element
instead of 8), the slices outlasted the product: 137 microseconds against 122 unfused at 8192 x 768 x 3072 on an H200.
"""

import triton
import triton.language as tl

from .projection import product, tile_at

# Rows of a slice, and so eight slices of a 128-row tile: what fits beside the accumulator in registers.
SLICE = tl.constexpr(16)


@triton.jit
def _meet():
    """A barrier of the block's threads. `tl.debug_barrier` is one too, but keeps Triton from pipelining the loop
    around it."""
    tl.inline_asm_elementwise("bar.sync 0; // $0", "=r", [], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def _place(row, col, part, m, h, BN: tl.constexpr):
    """Where slice `part` of the tile at (row, col) lies in the (m, 2h) tensors, and which of it exists."""
    rows = (tl.arange(0, SLICE) + (row + part * SLICE)).to(tl.int64)[:, None]
    cols = (tl.arange(0, BN) + col).to(tl.int64)[None, :]
    return rows * (2 * h) + cols, (rows < m) & (cols < h)


@triton.jit
def _read(kept, factors, row, col, part, m, h, BN: tl.constexpr):
    """A slice of the tile put aside, and its factors."""
    at, mask = _place(row, col, part, m, h, BN)
    inner = (tl.arange(0, SLICE) + part * SLICE)[:, None] * BN + tl.arange(0, BN)[None, :]
    dm = tl.load(kept + inner, mask, other=0.0)
    return dm, tl.load(factors + at, mask, other=0.0), tl.load(factors + h + at, mask, other=0.0)


@triton.jit
def _write(grads, dm, of_gate, of_up, row, col, part, m, h, BN: tl.constexpr):
    at, mask = _place(row, col, part, m, h, BN)
    dm = dm.to(tl.float32)
    tl.store(grads + at, (dm * of_gate.to(tl.float32)).to(grads.dtype.element_ty), mask)
    tl.store(grads + h + at, (dm * of_up.to(tl.float32)).to(grads.dtype.element_ty), mask)


@triton.jit(do_not_specialize=["m", "h8", "d", "dy_row", "w_row"])
def gradient_tma_kernel(
    dy, w, factors, grads, scratch,
    m: tl.int32, h8: tl.int32, d: tl.int32, dy_row: tl.int64, w_row: tl.int64,
    UPCAST: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """`w` is the down projection's (d, h). `factors` and `grads` are (m, 2h), gate first; h is 8 times `h8`. `scratch`
    holds BM x BN
    elements for each program. There must be more steps of BK in `d` than slices in a tile."""
    PARTS: tl.constexpr = BM // SLICE
    h = h8 * 8
    dy_tiles = tl.make_tensor_descriptor(dy, [m, d], [dy_row, 1], [BM, BK])
    w_tiles = tl.make_tensor_descriptor(w, [d, h], [w_row, 1], [BK, BN])
    tiles_m = tl.cdiv(m, BM)
    tiles_n = tl.cdiv(h, BN)
    steps = tl.cdiv(d, BK)
    # Slices are spread evenly over the steps of a tile, so that memory is asked for at a steady pace.
    pace = (steps - 1) // PARTS
    kept = scratch + tl.program_id(0).to(tl.int64) * (BM * BN)
    whole = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
    dm = tl.zeros([SLICE, BN], grads.dtype.element_ty)
    of_gate = dm
    of_up = dm
    last_row = -1
    last_col = 0
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        row, col = tile_at(tile, tiles_m, tiles_n, GROUP)
        acc = tl.zeros([BM, BN], tl.float32)
        for k in range(steps):
            acc = product(dy_tiles.load([row * BM, k * BK]), w_tiles.load([k * BK, col * BN]), acc, UPCAST)
            part = k // pace
            if (last_row >= 0) & (k % pace == 0) & (part <= PARTS):
                if part > 0:
                    _write(grads, dm, of_gate, of_up, last_row, last_col, part - 1, m, h, BN)
                if part < PARTS:
                    dm, of_gate, of_up = _read(kept, factors, last_row, last_col, part, m, h, BN)
        if not UPCAST:
            _meet()
        tl.store(kept + whole, acc.to(grads.dtype.element_ty))
        if not UPCAST:
            _meet()
        last_row = row * BM
        last_col = col * BN
    for part in range(PARTS):
        dm, of_gate, of_up = _read(kept, factors, last_row, last_col, part, m, h, BN)
        _write(grads, dm, of_gate, of_up, last_row, last_col, part, m, h, BN)
