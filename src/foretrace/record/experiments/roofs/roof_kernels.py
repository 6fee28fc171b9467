# mypy: ignore-errors
"""Kernels that only move memory or only multiply: read, write, copy, dot.

A program starts at block `apart` times its number, goes on by `stride` blocks, and starts again at
the end of the working set. With `own` blocks it has a part of the working set to itself. Loads
bypass L1 (`.cg`), so that a small working set shows the L2 cache and not the multiprocessor. Still,
programs that read one line at the same time read it once, and the one that is behind catches up:
only programs with parts of their own show all that L2 gives.
"""

import triton
import triton.language as tl

# no kernel of its own for 1 and for multiples of 16
_RUNTIME = ["blocks", "apart", "stride", "steps", "own"]


@triton.jit(do_not_specialize=_RUNTIME)
def walk_kernel(
    source, target, blocks, apart, stride, steps, own, WAY: tl.constexpr, BLOCK: tl.constexpr
):
    """Read (0), write (1) or copy (2) `steps` blocks; a sum keeps what is read alive."""
    program = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    at = (program.to(tl.int64) * apart % blocks).to(tl.int32)
    first = program.to(tl.int64) * own
    total = tl.zeros([BLOCK], tl.int32)
    for step in range(steps):
        here = (first + at) * BLOCK + lanes
        if WAY == 0:
            total ^= tl.load(source + here, cache_modifier=".cg")
        elif WAY == 1:
            tl.store(target + here, lanes * 40503 + step)
        else:
            tl.store(target + here, tl.load(source + here, cache_modifier=".cg"))
        at += stride
        at = tl.where(at >= blocks, at - blocks, at)
    if WAY == 0:
        tl.store(target + program, tl.sum(total))


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
