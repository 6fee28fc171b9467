"""The tensors that a kernel loads and stores, with the bytes that this moves.

Every element counts once for loads and once for stores, however often the code names it: no more
than the tensor has, no more than the loops reach. An index or a mask that data decides leaves an
upper bound: `at_most`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from foretrace.read.compiler.records import ITEM_BYTES, Access, KernelCall, Mode, NamedTensor, Size

UNSIZED: tuple[Size, ...] = ("?",)
# every element of every operand is needed once, and every element of the result is written
_MATMULS = frozenset({
    "mm", "addmm", "bmm", "baddbmm", "_int_mm", "_scaled_mm", "mv", "addmv", "dot", "copy_",
})  # fmt: skip
# needed too, but such kernels go over their data more than once or write results without a name
_PASSES = frozenset({
    "sort", "topk", "cumsum", "cumprod", "logcumsumexp", "all_reduce", "all_reduce_",
    "all_gather_into_tensor", "reduce_scatter_tensor", "randint", "randn", "rand", "normal_",
    "uniform_", "bernoulli_",
})  # fmt: skip


class Reach(Struct, frozen=True):
    """Elements of a buffer: the first, the last, and how many."""

    first: int
    last: int
    count: int


def together(parts: Iterable[Reach]) -> int:
    """The elements of all parts. Parts of one size between the same two elements are one."""
    found = set(parts)
    if not found:
        return 0
    span = max(part.last for part in found) - min(part.first for part in found) + 1
    return min(sum(part.count for part in found), span)


class Touch(Struct, frozen=True):
    """One load or store; `reach` is None if data decides its index or its mask."""

    argument: str  # the pointer
    mode: Mode
    text: str = ""
    reach: Reach | None = None
    most: int | None = None  # elements that it can reach at most, where that is known


def unseen(pointer: str, mutated: bool = False) -> Iterator[Touch]:
    """The touches of a pointer by its name, where the code that uses it is not understood."""
    both = pointer.startswith(("in_out", "ws", "sem"))
    stored = both or mutated or pointer.startswith("out")
    if both or not stored:
        yield Touch(pointer, "load")
    if stored:
        yield Touch(pointer, "store")


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
    text = "; ".join(dict.fromkeys(touch.text for touch in group))
    return replace(_of_elements(tensor, mode, elements, exact), argument=argument, index=text)


def _of_elements(tensor: NamedTensor, mode: Mode, elements: int | None, exact: bool) -> Access:
    item = ITEM_BYTES.get(tensor.dtype)
    if elements is None or item is None:
        return Access(tensor, mode, None, "unknown")
    times = 2 if mode == "atomic" else 1  # each is read and written
    return Access(tensor, mode, elements * item * times, "exact" if exact else "at_most")


def _elements(group: list[Touch], tensor: NamedTensor) -> tuple[int | None, bool]:
    """The number of different elements, and whether it is exact; else an upper bound."""
    known = [touch.reach for touch in group if touch.reach]
    counted, held = together(known), storage(tensor)
    if len(known) == len(group) or (known and counted == held):
        # what is not known reaches nothing more
        return counted if held is None else min(counted, held), True
    most = [touch.reach.count if touch.reach else touch.most for touch in group]
    total = None if None in most else sum(count for count in most if count is not None)
    bounds = [bound for bound in (total, held) if bound is not None]
    return min(bounds, default=None), False


def unsized(name: str) -> NamedTensor:
    """A tensor whose sizes are not known; one without dimensions has one element."""
    return NamedTensor(name, "", UNSIZED, UNSIZED)


def storage(tensor: NamedTensor) -> int | None:
    """The elements that a tensor has in memory: a dimension of stride 0 repeats the same ones."""
    return _together([tensor])


def _together(views: Sequence[NamedTensor]) -> int | None:
    """The elements that views of one buffer have in memory, each once."""
    parts = []
    for view in views:
        begins = view.offset if len(views) > 1 else 0
        shape = [size for size in view.shape if isinstance(size, int)]
        stride = [size for size in view.stride if isinstance(size, int)]
        if not isinstance(begins, int) or not len(view.shape) == len(shape) == len(stride):
            return None
        if 0 not in shape:
            loops = list(zip(shape, stride, strict=True))
            last = begins + sum((size - 1) * step for size, step in loops)
            count = prod(size for size, step in loops if step)
            parts.append(Reach(begins, last, min(count, last - begins + 1)))
    return together(parts)


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
    name: str,
    operands: Iterable[NamedTensor],
    results: Sequence[NamedTensor],
    arguments: Sequence[str] = (),
) -> tuple[Access, ...]:
    """Loads of the operands, stores of the results; an op that ends in `_` writes in place."""
    op, read = base_op(name), list(dict.fromkeys(operands))
    if op == "wait_tensor":  # moves nothing
        return ()
    in_place = op.endswith("_")
    written = {tensor.name: tensor for tensor in results or (read[:1] if in_place else ())}
    loads = [tensor for tensor in read if tensor.name not in written]
    if (in_place or {*results} >= {*read}) and (results or op != "copy_"):
        loads += [tensor for tensor in read if tensor.name in written]
    used: list[tuple[NamedTensor, Mode]] = [(each, "load") for each in loads]
    return _whole(op, [*used, *((each, "store") for each in written.values())], arguments)


def template(found: Sequence[Access]) -> tuple[Access, ...]:
    """Accesses of a matmul's template: its index is not understood, but it needs every element."""
    needed = {("at_most", name) for name in ("arg_A", "arg_B", "out_ptr0")}
    return tuple(
        replace(each, certainty="exact") if (each.certainty, each.argument) in needed else each
        for each in found
    )


def with_tensors(call: KernelCall, tensors: Iterable[NamedTensor]) -> KernelCall:
    """A library's call with tensors of which more is known, one for each access."""
    modes: Iterator[Mode] = ("load" if each.mode == "load" else "store" for each in call.accesses)
    used = list(zip(tensors, modes, strict=True))
    found = _whole(base_op(call.kernel), used, call.arguments)
    return replace(call, accesses=found)


def _whole(
    op: str, used: Sequence[tuple[NamedTensor, Mode]], arguments: Sequence[str]
) -> tuple[Access, ...]:
    """Accesses to all of each tensor, as a library's kernel does it.

    Views of one buffer (q, k and v) count one by one. What two of them share counts once.
    """
    found: list[Access] = []
    again = "attention" in op or op in _PASSES or "reduce='mean'" in arguments  # divides at the end
    before: dict[tuple[str, Mode], list[NamedTensor]] = {}
    for tensor, mode in used:
        views = before.setdefault((tensor.name, mode), [])
        known, views[:] = _together(views) if views else 0, [*views, tensor]
        held = _together(views)
        apart = held is None or known is None
        new = storage(tensor) if held is None or known is None else held - known
        access = _of_elements(tensor, mode, new, not apart)
        if access.certainty == "exact" and op not in _MATMULS:
            access = replace(access, certainty="at_least" if again else "at_most")
        found.append(access)
    return tuple(found)
