"""The tensors that a kernel loads and stores, with the bytes that this moves.

Every element counts once for loads and once for stores, however often the code names it. An index
that data decides, or a mask that data decides, leaves an upper bound: `at_most`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from foretrace.analyze.why.elements import Reached, different
from foretrace.analyze.why.index_forms import Index, Root, operation
from foretrace.analyze.why.touches import Touch
from foretrace.schema.compiler import ITEM_BYTES, Access, NamedTensor, Size

UNSIZED: tuple[Size, ...] = ("?",)
Known = Literal["exact", "at_most", "unknown"]


def accesses(touches: Sequence[Touch], tensors: Mapping[str, NamedTensor]) -> tuple[Access, ...]:
    """One access for each argument and mode; Inductor passes a buffer once."""
    groups: dict[tuple[str, str], list[Touch]] = {}
    for touch in touches:
        groups.setdefault((touch.argument, touch.mode), []).append(touch)
    return tuple(_access(group, tensors) for group in groups.values())


def _access(group: list[Touch], tensors: Mapping[str, NamedTensor]) -> Access:
    argument, mode = group[0].argument, group[0].mode
    tensor = tensors.get(argument) or unsized(argument)
    elements, exact = _elements(group, tensor)
    item = ITEM_BYTES.get(tensor.dtype)
    text = "; ".join(dict.fromkeys(touch.text for touch in group))
    times = 2 if mode == "atomic" else 1  # each is read and written
    moved = None if elements is None or item is None else elements * item * times
    certainty: Known = "unknown" if moved is None else "exact" if exact else "at_most"
    kind: Literal["load", "store", "atomic"] = (
        "load" if mode == "load" else "store" if mode == "store" else "atomic"
    )
    return Access(tensor, kind, moved, certainty, argument, text)


def _elements(group: list[Touch], tensor: NamedTensor) -> tuple[int | None, bool]:
    """The number of different elements, and whether it is exact; else an upper bound."""
    known = [Reached(t.index, t.mask) for t in group if t.index is not None and t.mask is not None]
    counted, held = different(known), storage(tensor)
    if counted is not None and (len(known) == len(group) or counted == held):
        return counted, True  # what is not known reaches nothing more
    bounds = [bound for bound in (_bound(group), held) if bound is not None]
    return (min(bounds), False) if bounds else (None, False)


def _bound(group: Iterable[Touch]) -> int | None:
    """The sum over the loads or stores: without masks, or what their variables allow."""
    total = 0
    for touch in group:
        reached = None if touch.index is None else different([Reached(touch.index)])
        most = touch.most if reached is None else reached
        if most is None:
            return None
        total += most
    return total


def unsized(name: str, dtype: str = "") -> NamedTensor:
    """A tensor whose sizes are not known; one without dimensions has one element."""
    return NamedTensor(name, dtype, UNSIZED, UNSIZED)


def storage(tensor: NamedTensor) -> int | None:
    """The elements that a tensor has in memory: a dimension of stride 0 repeats the same ones."""
    if len(tensor.shape) != len(tensor.stride):
        return None
    index: Index | None = 0
    for at, (size, stride) in enumerate(zip(tensor.shape, tensor.stride, strict=True)):
        if not isinstance(size, int) or not isinstance(stride, int):
            return None
        if size <= 0:
            return 0
        index = operation("+", index, operation("*", Root(f"d{at}", size), stride))
    return None if index is None else different([Reached(index)])


def whole(tensor: NamedTensor, mode: Literal["load", "store"], exact: bool = True) -> Access:
    """An access to all of a tensor, as a library's kernel does it."""
    elements, item = storage(tensor), ITEM_BYTES.get(tensor.dtype)
    moved = None if elements is None or item is None else elements * item
    certainty: Known = "unknown" if moved is None else "exact" if exact else "at_most"
    return Access(tensor, mode, moved, certainty)
