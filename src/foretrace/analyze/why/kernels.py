"""Every kernel of a compiled graph: its lines, nodes, code, traffic and launches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from foretrace.analyze.why.ran import Ran
from foretrace.analyze.why.unfused import Unfused
from foretrace.schema.compiler import Access, Compilation, GeneratedKernel, KernelCall, SourceLine
from foretrace.schema.documents.why import CallEntry, CompiledKernel, RunEntry

Shape = tuple[object, ...]


def compiled_kernels(part: Compilation, graph: str, ran: Ran) -> Iterator[CompiledKernel]:
    """Calls of one kernel with tensors of the same sizes are one entry, in the wrapper's order."""
    generated = {kernel.name: kernel for kernel in part.kernels}
    groups: dict[tuple[str, Shape], list[KernelCall]] = {}
    for call in part.calls:
        groups.setdefault((call.kernel, _sizes(call)), []).append(call)
    unfused = Unfused(part)
    for calls in groups.values():
        yield _entry(part, graph, calls, generated.get(calls[0].kernel), unfused, ran)


def _sizes(call: KernelCall) -> Shape:
    return tuple(
        (each.mode, each.tensor.dtype, each.tensor.shape, each.tensor.stride, each.bytes)
        for each in call.accesses
    )


def _entry(
    part: Compilation,
    graph: str,
    calls: Sequence[KernelCall],
    kernel: GeneratedKernel | None,
    unfused: Unfused,
    ran: Ran,
) -> CompiledKernel:
    first, found = calls[0], ran.of(calls)
    case, sizes = ran.case(found), found.bytes
    nodes = tuple(dict.fromkeys(node for call in calls for node in call.nodes))
    return CompiledKernel(
        first.kernel,
        part.id,
        graph,
        first.extern,
        distinct_lines(line for call in calls for line in call.sources),
        list(nodes),
        kernel.code if kernel else _written(first),
        kernel.language if kernel else "",
        [each for each in first.accesses if each.mode == "load"],
        [each for each in first.accesses if each.mode != "load"],
        sizes[0] if first.bytes is None and len(sizes) == 1 else first.bytes,
        found.launches,
        found.total_ns,
        found.median_ns,
        min(found.times, default=None),
        max(found.times, default=None),
        _certainty(first.accesses),
        unfused.ops(nodes),
        {**(kernel.config if kernel else {}), **ran.config(found)},
        found.names,
        case.get("gbps"),
        case.get("tflops"),
        case.get("bound", "unknown"),
        case.get("roof_percent"),
        case.get("limited_by", ""),
        unfused.traffic(first.nodes),
        [_call(call, ran) for call in calls],
        part.rank,
        [size for size in sizes if size is not None],
    )


def _call(call: KernelCall, ran: Ran) -> CallEntry:
    found = ran.of([call])
    runs = [RunEntry(list(run.kernels), run.ns, run.bytes) for run in found.runs]
    handle, nodes, sources = call.handle or call.kernel, list(call.nodes), list(call.sources)
    return CallEntry(handle, nodes, sources, found.launches, found.total_ns, runs)


def _written(call: KernelCall) -> str:
    """A library's call as the wrapper has it."""
    return f"{call.kernel}({', '.join(call.arguments)})"


def _certainty(accesses: Iterable[Access]) -> str:
    """The least certain of them decides."""
    found = {each.certainty for each in accesses} or {"unknown"}
    return next(word for word in ("unknown", "at_most", "at_least", "exact") if word in found)


def distinct_lines(lines: Iterable[SourceLine]) -> list[SourceLine]:
    """Each line of code once, in order."""
    found: dict[tuple[str, int], SourceLine] = {}
    for line in lines:
        found.setdefault((line.file, line.line), line)
    return list(found.values())
