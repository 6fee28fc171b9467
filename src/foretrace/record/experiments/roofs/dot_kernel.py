# mypy: ignore-errors
"""A kernel that only multiplies: a pair of tiles per program, over and over, on the chip."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["steps"])
def dot_kernel(
    a, b, out, steps, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, WIDE: tl.constexpr
):
    """`steps` matmuls of an (M, K) tile and the transposed of an (N, K) tile, summed in `WIDE`."""
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + rows[:, None] * K + inner[None, :])
    right = tl.load(b + columns[None, :] * K + inner[:, None])
    total = tl.zeros([M, N], WIDE)
    for _ in range(steps):
        total = tl.dot(left, right, total, out_dtype=WIDE)
    tl.store(out + tl.program_id(0), tl.sum(tl.sum(total, 1), 0))
