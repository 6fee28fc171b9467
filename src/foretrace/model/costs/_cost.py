"""`Cost`: what a call must compute and move, and `CostKind`: the declaration of a cost module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import force_setattr

from foretrace.model.costs._call import OpCall, Tensor, total
from foretrace.schema.cost import Certainty

NO_TYPE = "the element type of a tensor list is not recorded"
_PREFIX = {Certainty.AT_LEAST: "at least: ", Certainty.ESTIMATE: "estimate: "}
Entry = TypeVar("Entry")
Tensors = Iterable[Tensor | None]


class Cost(Struct, frozen=True):
    """What one call computes and moves: each distinct input read once, each output written once.

    None means not known, never zero. `touched` is the total where reads and writes are not known
    apart, or only one of them is. `note` says what was left out or why nothing is known.
    `matmuls` is the number of equal matmuls that make up `flops` (two in a convolution's
    backward); separate kernels may compute them. `least` is what an estimate cannot fall below; it
    stands for the bytes where the time of a kernel contradicts them.
    """

    flops: int | None
    bytes_read: int | None
    bytes_written: int | None
    note: str = ""
    certainty: Certainty = Certainty.EXACT
    touched: int | None = None
    matmuls: int = 1
    least: int | None = None

    def __post_init__(self) -> None:
        if self.bytes is None:
            force_setattr(self, "certainty", Certainty.NONE)

    @property
    def bytes(self) -> int | None:
        """Bytes in and out where both are known, else `touched`."""
        if self.bytes_read is None or self.bytes_written is None:
            return self.touched
        return self.bytes_read + self.bytes_written

    @property
    def text(self) -> str:
        """The certainty and the note as one phrase, such as `at least: reads the input`."""
        return _PREFIX.get(self.certainty, "") + self.note


class Launch(Struct, frozen=True):
    """One of the kernels that a call launched; `blocks` is its number of thread blocks, or 0."""

    name: str
    role: str = ""
    blocks: int = 0


Price = Callable[[OpCall], Cost | None]
Share = Callable[[OpCall, Launch, Sequence[Launch]], Cost | None]


class CostKind(Struct, frozen=True):
    """The prices of one kind of op, by op name; a name that ends in `*` covers all that begin so.

    A price returns None for a call that it cannot interpret; such a call has no cost. A share
    states what one of several kernels of a call moves at least; None if its name does not say.
    `with_context`: the prices depend on the requests of a step.
    """

    prices: Mapping[str, Price]
    shares: Mapping[str, Share] = field(default_factory=dict)
    with_context: bool = False


def table(names: str, entry: Entry, prefix: str = "aten::") -> dict[str, Entry]:
    """The same price or share for each of these ops."""
    return {f"{prefix}{name}": entry for name in names.split()}


def moved(
    reads: Tensors,
    writes: Tensors,
    flops: int | None = None,
    note: str = "",
    certainty: Certainty = Certainty.EXACT,
) -> Cost:
    """The cost of reading and writing these tensors once each."""
    return Cost(flops, total(reads), total(writes), note, certainty)


def moved_lists(call: OpCall, reads: Tensors, writes: Tensors, flops: int | None = None) -> Cost:
    """The same for tensors of lists, whose element type may not be recorded."""
    return moved(reads, writes, flops, "" if call.list_type else NO_TYPE)


def at_least(
    reads: Tensors | None, writes: Tensors | None, note: str, flops: int | None = None
) -> Cost:
    """A lower bound; None for a side of which nothing is certain."""
    read, written = (None if side is None else total(side) for side in (reads, writes))
    known = written if reads is None else read if writes is None else None
    return Cost(flops, read, written, note, Certainty.AT_LEAST, known)


def estimate(tensors: Sequence[Tensor], note: str) -> Cost | None:
    """Each of these arguments touched once, read or written; None without arguments."""
    touched = total(tensors)
    if touched is None:
        return unknown("the size of an element type is not known")
    return Cost(None, None, None, note, Certainty.ESTIMATE, touched) if tensors else None


def unknown(why: str) -> Cost:
    """The cost of an op whose arguments do not say what it moves."""
    return Cost(None, None, None, why)


UNSIZED = unknown("the profiler records no sizes for lists of more than 30 tensors")


def unstated(why: str) -> Price:
    """The price of ops whose arguments never say what they move."""
    return lambda call: unknown(why)
