# mypy: ignore-errors
"""Kernels that only move memory or only multiply: read, write, copy, chase pointers, dot.

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
def read_kernel(source, out, blocks, apart, stride, steps, own, BLOCK: tl.constexpr):
    """Read `steps` blocks; the sum keeps the loads alive."""
    program = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    at = (program.to(tl.int64) * apart % blocks).to(tl.int32)
    first = program.to(tl.int64) * own
    total = tl.zeros([BLOCK], tl.int32)
    for _ in range(steps):
        total ^= tl.load(source + (first + at) * BLOCK + lanes, cache_modifier=".cg")
        at += stride
        at = tl.where(at >= blocks, at - blocks, at)
    tl.store(out + program, tl.sum(total))


@triton.jit(do_not_specialize=_RUNTIME)
def write_kernel(target, blocks, apart, stride, steps, own, BLOCK: tl.constexpr):
    """Write `steps` blocks."""
    program = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    at = (program.to(tl.int64) * apart % blocks).to(tl.int32)
    first = program.to(tl.int64) * own
    for step in range(steps):
        tl.store(target + (first + at) * BLOCK + lanes, lanes * 40503 + step)
        at += stride
        at = tl.where(at >= blocks, at - blocks, at)


@triton.jit(do_not_specialize=_RUNTIME)
def copy_kernel(source, target, blocks, apart, stride, steps, own, BLOCK: tl.constexpr):
    """Copy `steps` blocks."""
    program = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    at = (program.to(tl.int64) * apart % blocks).to(tl.int32)
    first = program.to(tl.int64) * own
    for _ in range(steps):
        here = (first + at) * BLOCK + lanes
        tl.store(target + here, tl.load(source + here, cache_modifier=".cg"))
        at += stride
        at = tl.where(at >= blocks, at - blocks, at)


@triton.jit(do_not_specialize=["steps"])
def chase_kernel(chain, place, steps):
    """Follow a chain from where the last launch stopped: each load gives the index of the next."""
    at = tl.load(place)
    for _ in range(steps):
        at = tl.load(chain + at)
    tl.store(place, at)


@triton.jit
def mark_kernel(out):
    """An empty kernel, as far as Triton lets it be; its grid can carry a number."""
    if tl.program_id(0) < 0:
        tl.store(out, 0)


@triton.jit
def gelu_mul_kernel(gate, up, out, count, BLOCK: tl.constexpr):
    """`gelu(gate) * up`, as Inductor writes it for the articles' MLP."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    g = tl.load(gate + at, inside).to(tl.float32)
    u = tl.load(up + at, inside).to(tl.float32)
    value = g * 0.5 * (1.0 + tl.erf(g * 0.7071067811865476)) * u
    tl.store(out + at, value.to(out.dtype.element_ty), inside)


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
