"""Matrix products: which dimensions they have, and how they lie in memory."""

from __future__ import annotations

from dataclasses import dataclass

from foretrace.model.costs import OpCall, Tensor

_SECOND = frozenset(
    {"aten::addmm", "aten::addmm_", "aten::_addmm_activation", "aten::baddbmm", "aten::baddbmm_"}
)
_FIRST = frozenset(
    {"aten::mm", "aten::bmm", "aten::matmul", "aten::linear", "aten::_scaled_mm", "aten::_int_mm"}
)


@dataclass(frozen=True, slots=True)
class Product:
    """M rows, N columns, K summed; `contiguous` are the names of the dimensions that run along
    memory in some operand.
    """

    m: int
    n: int
    k: int
    contiguous: frozenset[str]

    @property
    def text(self) -> str:
        """`8192x768 by 768x3072`."""
        return f"{self.m}x{self.k} by {self.k}x{self.n}"


def product(call: OpCall | None) -> Product | None:
    """The product that a call computes; None for other ops and for calls without shapes."""
    if call is None:
        return None
    first = 1 if call.name in _SECOND else 0
    left, right = call.tensor(first), call.tensor(first + 1)
    if (
        call.name not in _FIRST | _SECOND
        or not left
        or not right
        or len(left.dims) < 2
        or len(right.dims) < 2
    ):
        return None
    if call.name == "aten::linear":  # its weight is [N, K]
        right = Tensor(right.dims[::-1], right.type, right.strides and right.strides[::-1])
    m, k, n = left.dims[-2], left.dims[-1], right.dims[-1]
    return Product(m, n, k, frozenset({_along(left, "m", "k"), _along(right, "k", "n"), "n"}))


def _along(tensor: Tensor, row: str, column: str) -> str:
    """The dimension whose neighbours are neighbours in memory; rows of a plain matrix run along its
    columns.
    """
    strides = tensor.strides
    return (
        row
        if strides and len(strides) == len(tensor.dims) and strides[-2] == 1 and strides[-1] != 1
        else column
    )
