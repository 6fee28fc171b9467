"""The recorded arguments of op calls, and what their kernels read and write.

Few distinct signatures are shared by many calls. A trace records the sizes of operands, not which
tensor is which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl
from msgspec import Struct

from foretrace.read.tables import Tables
from foretrace.trace.intervals import Ints
from foretrace.work.costs import OpCall, Tensor, cost, exceeds_index
from foretrace.work.kernel_row import KernelRow


class Signature(Struct, frozen=True):
    """One entry per argument: for a tensor a list of numbers, for a TensorList a list of those."""

    dims: list[Any]
    types: list[str]
    strides: list[Any]
    concrete: list[str]

    def call(self, name: str) -> OpCall:
        """A call of the op `name` with these arguments, as the cost model takes it."""
        return OpCall(name, self.dims, self.types, self.strides, self.concrete)

    @property
    def tensors(self) -> list[list[int]]:
        """The sizes of the arguments that are tensors with dimensions."""
        return [size for size in self.dims if size and isinstance(size[0], int)]

    @property
    def tensor_strides(self) -> list[list[int]] | None:
        """The strides of the same arguments; None where the trace lacks them."""
        found = [entry for entry in self.strides if entry and isinstance(entry[0], int)]
        return found if len(found) == len(self.tensors) else None


class Arguments:
    """The signatures of a trace, and which of them each op call has."""

    def __init__(self, tables: Tables) -> None:
        shapes = tables["shapes"]
        self._number: Ints = np.full(tables["events"].height, -1, np.int32)
        self._number[shapes["event"].to_numpy()] = shapes["signature"].to_numpy()
        self.signatures = [
            Signature(_nested(dims, many), types or [], _nested(strides, all_strides), texts or [])
            for dims, types, strides, texts, many, all_strides in tables["signatures"].iter_rows()
        ]

    def numbers(self, events: Ints) -> Ints:
        """The number of each event's signature, or -1; an event of -1 has none."""
        if not len(self._number):
            return np.full(len(events), -1, np.int64)
        found = self._number[np.maximum(events, 0)].astype(np.int64)
        return np.where(events >= 0, found, -1)

    def of(self, event: int) -> Signature | None:
        """The arguments of one call; None where the trace recorded none."""
        number = int(self._number[event]) if event >= 0 else -1
        return self.signatures[number] if number >= 0 else None


def distinct_lists(column: pl.Series) -> tuple[list[list[int] | None], Ints]:
    """The distinct lists of a column, and the number of each row's: millions of rows share few."""
    _, first, number = np.unique(column.hash().to_numpy(), return_index=True, return_inverse=True)
    return column.gather(first).to_list(), number.reshape(-1)


def json_text(value: Sequence[Any]) -> str:
    """A recorded list as compact JSON: `[[8192,768],[768,3072]]`."""
    return msgspec.json.encode(value).decode()


def _nested(plain: list[Any] | None, lists: list[Any] | None) -> list[Any]:
    if plain is None or lists is None:
        return plain or []
    return [many if one is None else one for one, many in zip(plain, lists, strict=True)]


# Results that have the size of the first operand, whatever else the kernel writes.
LIKE_FIRST = frozenset({"normalization", "softmax"})
# Write their operand without reading it.
WRITERS = frozenset(
    {"aten::fill_", "aten::zero_", "aten::normal_", "aten::uniform_", "aten::bernoulli_"}
)


def made(kernel: KernelRow) -> int:
    """Bytes of the result; 0 for a scalar, whose size says nothing about who reads it."""
    first = kernel.call.tensor(0) if kernel.call else None
    if kernel.op in WRITERS and (first is None or not first.dims):
        return 0
    if first is not None and kernel.role in LIKE_FIRST:
        return first.bytes or 0
    # of a kernel that does a part of a large op, what all parts write
    whole = cost(kernel.call) if kernel.call and kernel.bytes_written else None
    return (whole if whole and exceeds_index(whole) else kernel).bytes_written or 0


def operands(kernel: KernelRow) -> list[tuple[Tensor, int]]:
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
