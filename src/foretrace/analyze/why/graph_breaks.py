"""Graph breaks between kernels that share data.

Dynamo compiles the code behind a break as another function, `torch_dynamo_resume_in_f_at_52`. A
result of the first graph and an argument of the second are the same tensor if they have the same
name, or if no other result and no other argument has that type and these sizes.
"""

from __future__ import annotations

from collections.abc import Iterator

from foretrace.analyze.why.measured import Measured
from foretrace.analyze.why.neighbours import returns
from foretrace.analyze.why.refusals import REASONS, Separation
from foretrace.model.compiled.compile_log import resume_name
from foretrace.schema.compiler import Compilation, CompilerRun, NamedTensor, SourceLine


def across_breaks(run: CompilerRun, trace: Measured | None = None) -> tuple[Separation, ...]:
    """Kernels on both sides of a graph break, one of which reads what the other wrote."""
    return tuple(
        _separation(first, second, made, used, tensor, one.source, trace)
        for first in run.compilations
        for one in first.breaks
        for second in _resumed(run, first, resume_name(one))
        for result, argument, tensor in _passed(first, second)
        for made in _writer(first, result)
        for used in _readers(second, argument)
    )


def _resumed(run: CompilerRun, first: Compilation, name: str) -> Iterator[Compilation]:
    """The first version of the code behind a break: later versions are for other sizes.

    Behind a branch on data there are two such functions, with one name.
    """
    frames: dict[str, Compilation] = {}
    for each in run.compilations:
        if each.rank == first.rank and each.function and each.function.function == name:
            frames.setdefault(each.id.rpartition("/")[0], each)
    yield from frames.values()


def _passed(first: Compilation, second: Compilation) -> Iterator[tuple[int, int, NamedTensor]]:
    """(place of a result, place of the argument that it becomes, the tensor)."""
    before, after = first.graph_at("dynamo"), second.graph_at("dynamo")
    if before is None or after is None:
        return
    tensors = {node.name: node.tensor for node in before.nodes if node.tensor}
    results = [tensors.get(name) for name in before.outputs]
    for place, (name, result) in enumerate(zip(before.outputs, results, strict=True)):
        named = [at for at, each in enumerate(after.inputs) if _variable(each.name) == name]
        same = [at for at, each in enumerate(after.inputs) if result and _same(each, result)]
        only = len(same) == sum(_same(each, result) for each in results if each and result) == 1
        found = [at for at in named if at in same] or (same if only else [])
        if result is not None and len(found) == 1:
            yield place, found[0], result


def _variable(placeholder: str) -> str:
    """`L_z_`, `l_z_`: the argument `z`."""
    begins = placeholder[:2] in ("L_", "l_") and placeholder.endswith("_")
    return placeholder[2:-1] if begins else placeholder


def _same(a: NamedTensor, b: NamedTensor) -> bool:
    return (a.dtype, a.shape, a.stride) == (b.dtype, b.shape, b.stride)


def _writer(compilation: Compilation, result: int) -> Iterator[int]:
    """The call that stores a result of the graph, as the wrapper returns it."""
    names = returns(compilation.code[0]) if compilation.code else ()
    for place, call in enumerate(compilation.calls if result < len(names) else ()):
        if call.graph == 0 and names[result] in call.stored:
            yield place
            return


def _readers(compilation: Compilation, argument: int) -> Iterator[int]:
    """The calls that load an argument of the graph."""
    graph = compilation.graph_at("post_grad", "inference", "forward")
    if graph is None or argument >= len(graph.inputs):
        return
    name = graph.inputs[argument].name
    for place, call in enumerate(compilation.calls):
        if call.graph == 0 and name in call.loaded:
            yield place


def _separation(
    first: Compilation,
    second: Compilation,
    made: int,
    used: int,
    tensor: NamedTensor,
    place: SourceLine,
    trace: Measured | None,
) -> Separation:
    a, b = first.calls[made], second.calls[used]
    size = tensor.bytes
    a_ns, b_ns = (
        (trace.spent(a, size, (), b), trace.spent(b, size, (), a))
        if trace and size
        else (None, None)
    )
    return Separation(
        a.name,
        b.name,
        REASONS["graph_break"],
        "",
        None if a_ns is None or b_ns is None else a_ns + b_ns,
        "graph_break",
        2 * size if size is not None else None,
        first.id,
        shared=(tensor,),
        a_target=a.kernel if a.extern else "",
        b_target=b.kernel if b.extern else "",
        sources=tuple(dict.fromkeys((*a.sources, *b.sources))),
        b_region=second.id,
        stopped_at=place,
        a_ns=a_ns,
        b_ns=b_ns,
        a_call=made,
        b_call=used,
    )
