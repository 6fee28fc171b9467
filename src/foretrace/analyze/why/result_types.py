"""The types of what libraries return, which the wrapper does not write and the graph does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from foretrace.analyze.why import libraries
from foretrace.analyze.why.accesses import UNSIZED
from foretrace.schema.compiler import Access, FxGraph, KernelCall, NamedTensor


def typed(calls: Sequence[KernelCall], graph: FxGraph | None) -> list[KernelCall]:
    """The calls of a wrapper, with the types that the nodes of its post-grad graph have."""
    results = _results(graph)
    types: dict[str, str] = {}
    found = []
    for each in calls:
        made = [tensor for node in each.nodes for tensor in results.get(node, ())]
        call = _sized(each, made)
        for access in call.accesses:
            types[access.tensor.name] = types.get(access.tensor.name) or _type_of(access, made)
        found.append(_with_types(call, types))
    return found


def _sized(call: KernelCall, made: Sequence[NamedTensor]) -> KernelCall:
    """A result whose sizes the wrapper does not state has those of the node, if it makes one."""
    if len(made) != 1 or not any(access.tensor.shape == UNSIZED for access in call.accesses):
        return call
    tensors = [
        replace(made[0], name=access.tensor.name)
        if access.tensor.shape == UNSIZED and access.mode != "load"
        else access.tensor
        for access in call.accesses
    ]
    modes = [access.mode for access in call.accesses]
    return replace(call, accesses=libraries.again(call.kernel, tensors, modes))


def _results(graph: FxGraph | None) -> dict[str, list[NamedTensor]]:
    """What a node makes: its tensor, or the parts that `getitem` takes of it."""
    found: dict[str, list[NamedTensor]] = {}
    for node in graph.nodes if graph else ():
        maker = node.inputs[0] if node.target == "operator.getitem" and node.inputs else node.name
        if node.tensor is not None:
            found.setdefault(maker, []).append(node.tensor)
    return found


def _type_of(access: Access, made: Sequence[NamedTensor]) -> str:
    """The one type that a result of this shape and these strides has."""
    if access.tensor.dtype or access.mode == "load":
        return access.tensor.dtype
    shape, stride = access.tensor.shape, access.tensor.stride
    types = {t.dtype for t in made if t.shape == shape and t.stride in (stride, ())}
    return types.pop() if len(types) == 1 else ""


def _with_types(call: KernelCall, types: Mapping[str, str]) -> KernelCall:
    if not call.extern or all(access.tensor.dtype for access in call.accesses):
        return call
    tensors = [replace(a.tensor, dtype=types[a.tensor.name]) for a in call.accesses]
    modes = [access.mode for access in call.accesses]
    return replace(call, accesses=libraries.again(call.kernel, tensors, modes))
