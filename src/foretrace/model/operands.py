"""What a kernel reads and writes, by the arguments of the op that launched it.

A trace records the sizes of operands, not which tensor is which.
"""

from __future__ import annotations

from typing import Protocol

from foretrace.model.costs import OpCall, Tensor

# Results that have the size of the first operand, whatever else the kernel writes.
LIKE_FIRST = frozenset({"normalization", "softmax"})
# Write their operand without reading it.
WRITERS = frozenset(
    {"aten::fill_", "aten::zero_", "aten::normal_", "aten::uniform_", "aten::bernoulli_"}
)


class Called(Protocol):
    """A kernel's role, the op that launched it and its arguments, and the bytes that it writes."""

    @property
    def op(self) -> str:
        """The op's name, or ""."""

    @property
    def role(self) -> str:
        """The kernel's role."""

    @property
    def call(self) -> OpCall | None:
        """The recorded arguments."""

    @property
    def bytes_written(self) -> int | None:
        """What its cost says that it writes."""


def made(kernel: Called) -> int:
    """Bytes of the result; 0 for a scalar, whose size says nothing about who reads it."""
    first = kernel.call.tensor(0) if kernel.call else None
    if kernel.op in WRITERS and (first is None or not first.dims):
        return 0
    like_first = first is not None and kernel.role in LIKE_FIRST
    return (first.bytes if first and like_first else kernel.bytes_written) or 0


def operands(kernel: Called) -> list[tuple[Tensor, int]]:
    """The tensors that a kernel reads and their bytes, without scalars and expanded scalars."""
    if kernel.call is None or kernel.op in WRITERS:
        return []
    copies = kernel.op == "aten::copy_"
    given = (kernel.call.tensor(1),) if copies else kernel.call.every_tensor()
    tensors = [tensor for tensor in given if tensor and tensor.dims]
    tensors = [tensor for tensor in tensors if tensor.stored > 1 or tensor.elements == 1]
    # a list of tensors has no recorded type: `cat` writes as many elements as it reads
    width = (kernel.bytes_written or 0) // max(sum(tensor.elements for tensor in tensors), 1)
    return [(tensor, tensor.bytes or tensor.elements * width) for tensor in tensors]
