# mypy: ignore-errors
# ruff: noqa: RET505 (a branch on a constexpr is chosen at compile time only when it is an else)
"""`act(gate) * up` and its gradients, elementwise.

Contiguous tensors are one long row (the `flat` kernels: few arguments, least host time); others go
through the `strided` kernels, see `apply`. Sizes and strides are run-time arguments and offsets are
64-bit, so a new shape compiles nothing. Where everything is a multiple of eight elements, sizes are
passed in eights, which allows the compiler 16-byte loads.
"""

import triton
import triton.language as tl

from foretrace.kernels.device.math import activate, factors, gradients


@triton.jit
def _forward(gate_at, up_at, out_at, mask, ACT: tl.constexpr, EXACT: tl.constexpr):
    gate = tl.load(gate_at, mask).to(tl.float32)
    up = tl.load(up_at, mask).to(tl.float32)
    tl.store(out_at, (activate(gate, ACT, EXACT) * up).to(out_at.dtype.element_ty), mask)


@triton.jit
def _backward(
    grad_at, gate_at, up_at, grad_gate_at, grad_up_at, mask, ACT: tl.constexpr, EXACT: tl.constexpr
):
    grad = tl.load(grad_at, mask).to(tl.float32)
    gate = tl.load(gate_at, mask).to(tl.float32)
    up = tl.load(up_at, mask).to(tl.float32)
    d_gate, d_up = gradients(grad, gate, up, ACT, EXACT)
    tl.store(grad_gate_at, d_gate.to(grad_gate_at.dtype.element_ty), mask)
    tl.store(grad_up_at, d_up.to(grad_up_at.dtype.element_ty), mask)


@triton.jit(do_not_specialize=["count"])
def forward_flat_kernel(
    gate, up, out,
    count: tl.int64, ACT: tl.constexpr, EXACT: tl.constexpr, VEC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`count` is in units of VEC elements."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    _forward(gate + at, up + at, out + at, at < count * VEC, ACT, EXACT)


@triton.jit(do_not_specialize=["count"])
def backward_flat_kernel(
    grad, gate, up, grad_gate, grad_up,
    count: tl.int64, ACT: tl.constexpr, EXACT: tl.constexpr, VEC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`count` is in units of VEC elements."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    _backward(
        grad + at, gate + at, up + at, grad_gate + at, grad_up + at, at < count * VEC, ACT, EXACT
    )


@triton.jit
def _tile(
    rows, cols, row_blocks, col_blocks, VEC: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr
):
    """This program's outer index, row indices, column indices and mask."""
    above = tl.program_id(0) // col_blocks
    outer = (above // row_blocks).to(tl.int64)
    row = (above % row_blocks).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    col = (tl.program_id(0) % col_blocks).to(tl.int64) * COLS + tl.arange(0, COLS)[None, :]
    return outer, row, col, (row < rows) & (col < cols * VEC)


@triton.jit
def _at(base, outer, row, col, s_outer, s_row, s_col, VEC: tl.constexpr, ADJACENT: tl.constexpr):
    if ADJACENT:
        return base + outer * (s_outer * VEC) + row * (s_row * VEC) + col
    else:
        return base + outer * s_outer + row * s_row + col * s_col


SIZES = ("rows", "cols", "row_blocks", "col_blocks")


def strides_named(*names: str) -> tuple[str, ...]:
    """The arguments that hold the strides of these tensors."""
    return tuple(f"{name}_{axis}" for name in names for axis in ("outer", "row", "col"))


@triton.jit(do_not_specialize=[*SIZES, *strides_named("g", "u", "o")])
def forward_strided_kernel(
    gate, up, out,
    rows: tl.int64, cols: tl.int64, row_blocks: tl.int32, col_blocks: tl.int32,
    g_outer: tl.int64, g_row: tl.int64, g_col: tl.int64,
    u_outer: tl.int64, u_row: tl.int64, u_col: tl.int64,
    o_outer: tl.int64, o_row: tl.int64, o_col: tl.int64,
    ACT: tl.constexpr, EXACT: tl.constexpr, VEC: tl.constexpr, ADJACENT: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """`cols`, outer and row strides are in units of VEC; ADJACENT: every column stride is 1."""
    outer, row, col, mask = _tile(rows, cols, row_blocks, col_blocks, VEC, ROWS, COLS)
    g = _at(gate, outer, row, col, g_outer, g_row, g_col, VEC, ADJACENT)
    u = _at(up, outer, row, col, u_outer, u_row, u_col, VEC, ADJACENT)
    o = _at(out, outer, row, col, o_outer, o_row, o_col, VEC, ADJACENT)
    _forward(g, u, o, mask, ACT, EXACT)


@triton.jit(do_not_specialize=[*SIZES, *strides_named("d", "g", "u", "x", "y")])
def backward_strided_kernel(
    grad, gate, up, grad_gate, grad_up,
    rows: tl.int64, cols: tl.int64, row_blocks: tl.int32, col_blocks: tl.int32,
    d_outer: tl.int64, d_row: tl.int64, d_col: tl.int64,
    g_outer: tl.int64, g_row: tl.int64, g_col: tl.int64,
    u_outer: tl.int64, u_row: tl.int64, u_col: tl.int64,
    x_outer: tl.int64, x_row: tl.int64, x_col: tl.int64,
    y_outer: tl.int64, y_row: tl.int64, y_col: tl.int64,
    ACT: tl.constexpr, EXACT: tl.constexpr, VEC: tl.constexpr, ADJACENT: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """As `forward_strided_kernel`."""
    outer, row, col, mask = _tile(rows, cols, row_blocks, col_blocks, VEC, ROWS, COLS)
    d = _at(grad, outer, row, col, d_outer, d_row, d_col, VEC, ADJACENT)
    g = _at(gate, outer, row, col, g_outer, g_row, g_col, VEC, ADJACENT)
    u = _at(up, outer, row, col, u_outer, u_row, u_col, VEC, ADJACENT)
    x = _at(grad_gate, outer, row, col, x_outer, x_row, x_col, VEC, ADJACENT)
    y = _at(grad_up, outer, row, col, y_outer, y_row, y_col, VEC, ADJACENT)
    _backward(d, g, u, x, y, mask, ACT, EXACT)


@triton.jit
def _packed_tile(tile, h, col_blocks, VEC: tl.constexpr, BLOCK: tl.constexpr):
    """Offsets of part of a row in an (m, h) and in an (m, 2h) tensor, and its mask."""
    row = (tile // col_blocks).to(tl.int64)
    col = (tile % col_blocks) * BLOCK + tl.arange(0, BLOCK)
    return row * (h * VEC) + col, row * (2 * h * VEC) + col, col < h * VEC


@triton.jit(do_not_specialize=["h", "col_blocks"])
def forward_packed_kernel(
    pre, out, h: tl.int64, col_blocks: tl.int32,
    ACT: tl.constexpr, EXACT: tl.constexpr, VEC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out = act(gate) * up for `pre` = (gate, up), (m, 2h); `h` is in units of VEC elements."""
    at, at_pre, mask = _packed_tile(tl.program_id(0), h, col_blocks, VEC, BLOCK)
    _forward(pre + at_pre, pre + h * VEC + at_pre, out + at, mask, ACT, EXACT)


@triton.jit(do_not_specialize=["h", "col_blocks"])
def factors_packed_kernel(
    pre, out, h: tl.int64, col_blocks: tl.int32,
    ACT: tl.constexpr, EXACT: tl.constexpr, VEC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """As `forward_packed_kernel`; then the `factors` take the places of gate and up."""
    at, at_pre, mask = _packed_tile(tl.program_id(0), h, col_blocks, VEC, BLOCK)
    gate_at = pre + at_pre
    up_at = gate_at + h * VEC
    up = tl.load(up_at, mask).to(tl.float32)
    of_gate, of_up = factors(tl.load(gate_at, mask).to(tl.float32), up, ACT, EXACT)
    dtype = out.dtype.element_ty
    tl.store(out + at, (of_up * up).to(dtype), mask)
    tl.store(gate_at, of_gate.to(dtype), mask)
    tl.store(up_at, of_up.to(dtype), mask)


@triton.jit(do_not_specialize=["h", "col_blocks"])
def backward_packed_kernel(
    grad, pre, grads, h: tl.int64, col_blocks: tl.int32,
    ACT: tl.constexpr, EXACT: tl.constexpr, VEC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Both gradients side by side, from the last row to the first.

    The end of `grad` was written last and is still in L2; the start of `grads` will be.
    """
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    at, at_pre, mask = _packed_tile(tile, h, col_blocks, VEC, BLOCK)
    up = h * VEC + at_pre
    _backward(grad + at, pre + at_pre, pre + up, grads + at_pre, grads + up, mask, ACT, EXACT)
