"""What decides how a gated MLP is computed: everything but where its tensors lie."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

Size = tuple[int, int, int]

# Every pointer of such tensors is a multiple of this many bytes.
GRID = 16
SHORT = (torch.bfloat16, torch.float16)


class Tile(NamedTuple):
    """How a matmul is cut: rows, columns, depth; pipeline stages, warps, rows of tiles per stripe.

    `resident` is programs per multiprocessor (persistent kernels). `split` is parts of the depth
    (narrow matmuls), or how many buffers an epilogue has (specialised matmuls).
    """

    bm: int
    bn: int
    bk: int
    stages: int
    warps: int
    group: int = 8
    resident: int = 1
    split: int = 1

    def options(self) -> dict[str, Any]:
        """Triton's launch options."""
        return {"num_warps": self.warps, "num_stages": self.stages, "enable_fp_fusion": True}


class CallCase(NamedTuple):
    """Calls that run the same launches, up to the addresses of their tensors.

    `rows` are the strides between the rows of x, gate, up and down, in elements, and 0 where the
    elements of a row do not follow each other; `aligned` says that all four begin on the 16-byte
    grid. `order` is how up's weight lies to gate's: 2 right behind it in the same storage, 1
    behind, -1 before, 0 at the same place.
    """

    size: Size
    dtype: torch.dtype
    device: int
    activation: str
    rows: tuple[int, int, int, int]
    aligned: bool
    order: int

    @staticmethod
    def of(x: Tensor, gate: Tensor, up: Tensor, down: Tensor, activation: str) -> CallCase:
        """That of tensors that fit together, `x` as rows."""
        h, d = gate.shape
        tensors = (x, gate, up, down)
        start, second = gate.data_ptr(), up.data_ptr()
        aligned = not (x.data_ptr() | start | second | down.data_ptr()) & (GRID - 1)
        x_row, gate_row, up_row, down_row = (
            tensor.stride(0) * (tensor.stride(1) == 1) for tensor in tensors
        )
        rows = x_row, gate_row, up_row, down_row
        order = order_of(second - start, gate, up)
        size = x.shape[0], d, h
        return CallCase(size, x.dtype, x.get_device(), activation, rows, aligned, order)

    def on_grid(self) -> bool:
        """Whether every row begins on the 16-byte grid, of 16-bit elements."""
        _, d, h = self.size
        x_row, gate_row, up_row, down_row = self.rows
        units = d | h | x_row | gate_row | up_row | down_row
        return self.dtype in SHORT and self.aligned and all(self.rows) and not units & 7


def order_of(way: int, gate: Tensor, up: Tensor) -> int:
    """`CallCase.order` of two weights, `way` bytes from gate to up."""
    if way != gate.nbytes:
        return (way > 0) - (way < 0)
    # Allocators put two weights of a model side by side: no matmul may take them for one.
    return 2 if gate.untyped_storage().data_ptr() == up.untyped_storage().data_ptr() else 1
