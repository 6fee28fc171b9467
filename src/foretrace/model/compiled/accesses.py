"""The tensors that a kernel loads and stores, with the bytes that this moves.

Every element counts once for loads and once for stores, however often the code names it. An index
that data decides, or a mask that data decides, leaves an upper bound: `at_most`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from foretrace.model.compiled.indices import Index, Reached, Root, different, operation
from foretrace.schema.compiler import ITEM_BYTES, Access, NamedTensor, Size

UNSIZED: tuple[Size, ...] = ("?",)
Known = Literal["exact", "at_most", "unknown"]
# every element of every operand is needed once, and every element of the result is written
_MATMULS = frozenset(
    ["mm", "addmm", "bmm", "baddbmm", "_int_mm", "_scaled_mm", "mv", "addmv", "dot", "copy_"]
)
# needed too, but such kernels go over their data more than once or write results without a name
_PASSES = frozenset(
    [
        "sort",
        "topk",
        "cumsum",
        "cumprod",
        "logcumsumexp",
        "all_reduce",
        "all_reduce_",
        "all_gather_into_tensor",
        "reduce_scatter_tensor",
        "randint",
        "randn",
        "rand",
        "normal_",
        "uniform_",
        "bernoulli_",
    ]
)


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


class Touch(Struct, frozen=True):
    """An access through the pointer `argument`; `index` or `mask` is None if it is not known."""

    argument: str
    mode: str  # load, store, atomic
    text: str
    index: Index | None
    mask: Index | None = 1
    most: int | None = None  # elements that it can reach at most, where that is known


def unseen(pointer: str, mutated: bool = False) -> list[Touch]:
    """A pointer that the code uses in a way that is not understood: by its name, and no index."""
    both = pointer.startswith(("in_out", "ws", "sem"))
    stored = both or mutated or pointer.startswith("out")
    modes = [mode for mode, done in (("load", both or not stored), ("store", stored)) if done]
    return [Touch(pointer, mode, "", None, None) for mode in modes]


def base_op(name: str) -> str:
    """`sort` for `torch.ops.aten.sort.stable`, `mm` for `extern_kernels.mm`."""
    if name.startswith("aoti_torch_"):  # aoti_torch_cuda_mm_out
        return name.split("_", 3)[-1].removesuffix("_out")
    parts = name.split(".")
    known = {"ops": 2, "aten": 1, "extern_kernels": 1, "inductor_ops": 1, "_quantized": 1}
    for at, part in enumerate(parts):
        if part in known and at + known[part] < len(parts):
            return parts[at + known[part]]
    return parts[-1]


def library_accesses(
    name: str, operands: Iterable[NamedTensor], results: Sequence[NamedTensor]
) -> tuple[Access, ...]:
    """Loads of the operands, stores of the results; an op that ends in `_` writes in place."""
    op, read = base_op(name), {tensor.name: tensor for tensor in operands}
    if op == "wait_tensor":  # moves nothing
        return ()
    written = {tensor.name: tensor for tensor in results}
    first = next(iter(read.values()), None)
    if op.endswith("_") and first is not None and not written:
        written = {first.name: first}
        if op == "copy_":
            read.pop(first.name)
    found = [whole(tensor, "load") for tensor in read.values() if tensor.name not in written]
    found += [whole(t, "load") for n, t in read.items() if n in written and op.endswith("_")]
    found += [whole(tensor, "store") for tensor in written.values()]
    return tuple(_stated(access, op) for access in found)


def template(found: Sequence[Access]) -> tuple[Access, ...]:
    """Accesses of a matmul's template: its index is not understood, but it needs every element."""
    needed = ("arg_A", "arg_B", "out_ptr0")
    return tuple(
        replace(each, certainty="exact")
        if each.certainty == "at_most" and each.argument in needed
        else each
        for each in found
    )


def again(name: str, tensors: Sequence[NamedTensor], modes: Sequence[str]) -> tuple[Access, ...]:
    """The same accesses with tensors of which more is known."""
    found = (
        whole(tensor, "load" if mode == "load" else "store")
        for tensor, mode in zip(tensors, modes, strict=True)
    )
    return tuple(_stated(access, base_op(name)) for access in found)


def same_type(name: str, tensors: Sequence[NamedTensor]) -> list[NamedTensor]:
    """Operands and result of a matmul, each with the type that one of them has."""
    types = {tensor.dtype for tensor in tensors} - {""}
    shared = base_op(name) in ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "copy_")
    return (
        [replace(t, dtype=next(iter(types))) for t in tensors] if shared and len(types) == 1 else []
    )


def _stated(access: Access, op: str) -> Access:
    if access.certainty != "exact" or op in _MATMULS:
        return access
    attention = "attention" in op
    return replace(access, certainty="at_least" if attention or op in _PASSES else "at_most")
