"""`OpCall`: one call of one op as the trace recorded it, and `Cost`: what it had to compute and to
move.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from foretrace.model.costs._types import NOT_TENSORS, SCALAR_TYPES, SIZES


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor's shape and type; without strides it is taken as dense."""

    dims: tuple[int, ...]
    type: str
    strides: tuple[int, ...] | None = None

    @property
    def elements(self) -> int:
        """How many elements a reader sees, repeats included."""
        return math.prod(self.dims)

    @property
    def stored(self) -> int:
        """How many distinct elements lie in memory: an expanded dimension (stride 0) holds its
        values once.

        Windows that overlap (`unfold`) are bounded by the span of addresses they cover.
        """
        if self.strides is None or len(self.strides) != len(self.dims) or not self.elements:
            return self.elements
        moving = [
            (dim, abs(stride))
            for dim, stride in zip(self.dims, self.strides, strict=True)
            if stride
        ]
        span = 1 + sum((dim - 1) * stride for dim, stride in moving)
        return min(math.prod(dim for dim, _ in moving), span)

    @property
    def bytes(self) -> int | None:
        """Bytes in memory, each distinct element once; None if the type's size is not known."""
        size = SIZES.get(self.type)
        return None if size is None else self.stored * size


@dataclass(frozen=True, slots=True)
class OpCall:
    """What a trace says about one call: `Input Dims`, `Input type`, `Input Strides`,
    `Concrete Inputs`, and the rest.

    The four lists run in parallel, one entry per argument in schema order; any may be missing
    (older traces have no concrete inputs). `list_type` is the element type of tensor lists: the
    profiler types those `TensorList` and says no more, so a caller takes it from the kernel's name
    (`element_type`) or leaves it empty.
    """

    name: str
    dims: Sequence[Any] = ()
    types: Sequence[str] = ()
    strides: Sequence[Any] = ()
    concrete: Sequence[str] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    list_type: str = ""

    def tensor(self, index: int) -> Tensor | None:
        """Argument `index` as a tensor; None if it is absent, a number, a list or not well formed."""
        kind, dims = _at(self.types, index), _integers(_at(self.dims, index))
        if (
            not isinstance(kind, str)
            or kind in NOT_TENSORS
            or dims is None
            or min(dims, default=0) < 0
        ):
            return None
        return Tensor(dims, kind, _integers(_at(self.strides, index)))

    def tensors(self, index: int) -> tuple[Tensor, ...] | None:
        """Argument `index` as a list of tensors; None if it is not one or its sizes were not
        recorded.

        The profiler leaves the sizes out of lists of more than 30 tensors; such a list looks like
        an empty one, and an empty one launches nothing.
        """
        dims, strides = _at(self.dims, index), _at(self.strides, index)
        if _at(self.types, index) != "TensorList" or not isinstance(dims, list | tuple) or not dims:
            return None
        found = [_integers(entry) for entry in dims]
        if any(entry is None or min(entry, default=0) < 0 for entry in found):
            return None
        return tuple(
            Tensor(entry, self.list_type, _integers(_at(strides, place)))
            for place, entry in enumerate(found)
            if entry is not None
        )

    def every_tensor(self) -> tuple[Tensor, ...]:
        """All tensor arguments, lists opened, in order."""
        found: list[Tensor] = []
        for index in range(len(self.dims)):
            one = self.tensor(index)
            found += [one] if one else self.tensors(index) or ()
        return tuple(found)

    @property
    def operand_type(self) -> str | None:
        """The type of the first tensor argument with dimensions: what the op computes with, where
        no name says it.
        """
        return next(
            (tensor.type for tensor in self.every_tensor() if tensor.dims and tensor.type), None
        )

    def text(self, index: int) -> str:
        """The recorded value of argument `index`, or "" (tensors, None and strings are recorded as
        "").
        """
        value = _at(self.concrete, index)
        return value if isinstance(value, str) else ""

    def number(self, index: int) -> float | None:
        """The recorded value as a number; None if it was not recorded. `True` is 1."""
        return _number(self.text(index))

    def integer(self, index: int) -> int | None:
        number = self.number(index)
        return int(number) if number is not None and math.isfinite(number) else None

    def flag(self, index: int) -> bool | None:
        return {"True": True, "False": False}.get(self.text(index))

    def numbers(self, index: int) -> tuple[int, ...] | None:
        """The recorded list of integers or flags (`[1, 1]`, `[True, False]`), or a lone integer;
        else None.
        """
        parts = [_number(part) for part in self.text(index).strip("[]").split(",") if part.strip()]
        if not self.text(index) or any(part is None or not math.isfinite(part) for part in parts):
            return None
        return tuple(int(part) for part in parts if part is not None)

    def scalar_type(self, index: int) -> str | None:
        """The type that a dtype argument names; None if absent or not recorded."""
        code = self.integer(index)
        return None if code is None else SCALAR_TYPES.get(code)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one op call computes and moves at the least: each distinct input read once, each output
    written once.

    None means not known, never zero. `touched` is the total where reads and writes cannot be told
    apart or only one of them is known; `note` then says which. `products` is the number of equal
    matrix products that make up `flops` (two in a convolution's backward), which separate kernels
    may carry out.
    """

    flops: int | None
    bytes_read: int | None
    bytes_written: int | None
    note: str = ""
    touched: int | None = None
    products: int = 1

    @property
    def bytes(self) -> int | None:
        """Bytes in and out where both are known, else `touched`."""
        if self.bytes_read is None or self.bytes_written is None:
            return self.touched
        return self.bytes_read + self.bytes_written


@dataclass(frozen=True, slots=True)
class Launch:
    """One of the kernels that a call launched; `blocks` is the number of its threadblocks, 0 where
    it is not recorded.
    """

    name: str
    role: str = ""
    blocks: int = 0


Price = Callable[[OpCall], Cost | None]
Share = Callable[[OpCall, Launch, Sequence[Launch]], Cost | None]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of op: a price per op name (a name that ends in `*` stands for all that begin so)
    and worked examples.

    A price returns None for a call it cannot make sense of; such a call gets the general estimate.
    A share, by the same names, says of a call that launched several kernels what one of them moves
    at the least, and None for a kernel whose name does not tell its part. `split` are its examples.
    The contract test runs every example.
    """

    prices: Mapping[str, Price]
    examples: tuple[tuple[OpCall, Cost], ...] = ()
    shares: Mapping[str, Share] = field(default_factory=dict)
    split: tuple[tuple[OpCall, Mapping[Launch, Cost | None]], ...] = ()


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape that these shapes broadcast to; None if they do not fit."""
    width = max((len(shape) for shape in shapes), default=0)
    out: list[int] = []
    for column in zip(*((1,) * (width - len(shape)) + shape for shape in shapes), strict=True):
        sizes = {size for size in column if size != 1}
        if len(sizes) > 1:
            return None
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


def dense(tensor: Tensor) -> Tensor:
    """A new tensor of this shape and type."""
    return Tensor(tensor.dims, tensor.type)


def total(tensors: Iterable[Tensor | None]) -> int | None:
    """Bytes of these tensors together; absent ones (None) take none, one of unknown type makes the
    sum unknown.
    """
    sizes = [tensor.bytes for tensor in tensors if tensor is not None]
    return None if None in sizes else sum(size for size in sizes if size is not None)


def moved(
    reads: Iterable[Tensor | None],
    writes: Iterable[Tensor | None],
    flops: int | None = None,
    note: str = "",
) -> Cost:
    """The cost of reading and writing these tensors once each."""
    return Cost(flops, total(reads), total(writes), note)


def at_least(reads: Iterable[Tensor | None], why: str, flops: int | None = None) -> Cost:
    """The cost of an op whose output size is not known: what it reads is a lower bound of what it
    moves.
    """
    read = total(reads)
    return Cost(flops, read, None, f"at least: {why}", touched=read)


def part(
    reads: Iterable[Tensor | None] | None, writes: Iterable[Tensor | None] | None, what: str
) -> Cost:
    """What one kernel of several moves for sure; None for a side of which nothing is sure.

    What the kernels hand to each other beyond that is not recorded.
    """
    read, written = (None if each is None else total(each) for each in (reads, writes))
    sure = written if reads is None else read if writes is None else None
    return Cost(None, read, written, f"at least: {what}", touched=sure)


def unknown(why: str) -> Cost:
    """The cost of an op whose traffic cannot be known from its arguments."""
    return Cost(None, None, None, why)


def _at(items: Any, index: int) -> Any:
    return items[index] if isinstance(items, list | tuple) and 0 <= index < len(items) else None


def _integers(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, list | tuple) and all(isinstance(item, int) for item in value):
        return tuple(value)
    return None


def _number(text: str) -> float | None:
    text = text.strip()
    if text in ("True", "False"):
        return int(text == "True")
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return None
