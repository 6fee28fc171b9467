"""What a library's kernel reads and writes: a matmul, a sort, attention, a copy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from foretrace.analyze.why.accesses import whole
from foretrace.schema.compiler import Access, NamedTensor

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


def accesses(
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
