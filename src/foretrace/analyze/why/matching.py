"""Ops of a trace against the calls of a wrapper: which wrapper ran, and which op is which call."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from foretrace.analyze.why.buffers import sizes
from foretrace.analyze.why.libraries import base_op
from foretrace.analyze.why.parsed import dotted
from foretrace.analyze.why.regions import GraphRun
from foretrace.analyze.why.symbols import expression, solve
from foretrace.model.arguments import Signature
from foretrace.model.trace import Trace
from foretrace.schema.compiler import CompilerRun, GeneratedKernel, KernelCall, Size

_VIEW = "reinterpret_tensor"
_GRAPH = re.compile(r"\Agraph_\d{1,9}_")


class Wrapper(Struct, frozen=True):
    """One graph of a compilation: its calls, and their places among all of the compilation's."""

    compilation: int
    id: str
    graph: int
    calls: tuple[KernelCall, ...]
    places: tuple[int, ...]
    kernels: dict[str, GeneratedKernel]


class SeenOp(Struct, frozen=True):
    """An op inside a compiled graph, as the trace has it."""

    name: str
    hash: str = ""  # of the generated code
    arguments: Signature | None = None


def wrappers(run: CompilerRun, rank: int | None) -> list[Wrapper]:
    """Every graph with calls; those of other ranks are left out."""
    found = []
    for at, each in enumerate(run.compilations):
        if rank is not None and each.rank is not None and each.rank != rank:
            continue
        for graph in sorted({call.graph for call in each.calls}):
            places = tuple(p for p, call in enumerate(each.calls) if call.graph == graph)
            kernels = {kernel.name: kernel for kernel in each.kernels if kernel.graph == graph}
            calls = tuple(each.calls[place] for place in places)
            found.append(Wrapper(at, each.id, graph, calls, places, kernels))
    return found


def names(trace: Trace, rows: Iterable[int]) -> list[str]:
    """The names of GPU operations."""
    return [trace.host.names[trace.host.name[trace.gpu.id[row]]] for row in rows]


def hashes(trace: Trace) -> dict[int, str]:
    """The hash of the code that an op launched, by event: only generated kernels have one."""
    table = trace.tables["triton"].select("event", "kernel_hash").drop_nulls()
    pairs = zip(table["event"].to_list(), table["kernel_hash"].to_list(), strict=True)
    return {event: str(text).strip('"') for event, text in pairs}


def chosen(graph_run: GraphRun, ops: Sequence[SeenOp], known: Sequence[Wrapper]) -> Wrapper | None:
    """The wrapper whose code ran: no hash contradicts it, and it explains the most ops."""
    same = [each for each in known if graph_run.compile_id in ("", each.id)]
    fitting = [each for each in same or known if not _contradicts(ops, each)]
    called = [op.name for op in ops]
    scores = {id(each): len(aligned(called, each)) for each in fitting}
    best = max(scores.values(), default=0)
    found = [each for each in fitting if scores[id(each)] == best and best]
    if len(found) > 1:
        found.sort(key=lambda each: (abs(len(each.calls) - best), each.graph))
        if len({(abs(len(each.calls) - best)) for each in found[:2]}) == 1:
            return found[-1 if graph_run.backward else 0] if _one_compilation(found) else None
    return found[0] if found else None


def _one_compilation(found: Sequence[Wrapper]) -> bool:
    return len({each.compilation for each in found}) == 1


def _contradicts(ops: Sequence[SeenOp], wrapper: Wrapper) -> bool:
    """Whether other code ran: a generated kernel that it lacks, another hash, other sizes."""
    for op in ops:
        kernel = wrapper.kernels.get(op.name)
        stem = PurePosixPath(kernel.file).stem if kernel else ""
        if op.hash and (kernel is None or (stem and op.hash != stem)):
            return True
    pairs = aligned([op.name for op in ops], wrapper)
    return any(_other_sizes(ops[at], wrapper.calls[call]) for at, call in pairs)


def _other_sizes(op: SeenOp, call: KernelCall) -> bool:
    """Whether a matmul ran with tensors that its call does not have."""
    if op.arguments is None or not call.extern or not call.kernel.endswith("mm"):
        return False
    fixed = (list(access.tensor.shape) for access in call.accesses)
    known = [shape for shape in fixed if all(isinstance(size, int) for size in shape)]
    return any(shape not in op.arguments.dims for shape in known)


def aligned(called: Sequence[str], wrapper: Wrapper) -> list[tuple[int, int]]:
    """(place of the op, place of the call) of all that match, both in their order."""
    places: dict[str, list[int]] = {}
    for place, call in enumerate(wrapper.calls):
        for name in op_names(call):
            places.setdefault(name, []).append(place)
    pairs: list[tuple[int, int]] = []
    next_call = 0
    for at, name in enumerate(called):
        # C++ kernels have rows with the number of their graph: `graph_0_cpp_fused_add_0`
        held = places.get(name) or places.get(_GRAPH.sub("", name, count=1), [])
        found = bisect_left(held, next_call)
        if found < len(held):
            pairs.append((at, held[found]))
            next_call = held[found] + 1
    return pairs


def op_names(call: KernelCall) -> tuple[str, ...]:
    """The names that a call has in a trace: its kernel's, or `aten::mm`."""
    if not call.extern:
        return (call.kernel,)
    op = base_op(call.kernel)
    parts = call.kernel.split(".")
    space = parts[2] if parts[:2] == ["torch", "ops"] and len(parts) > 3 else "aten"
    return tuple({f"{space}::{op}", f"{space}::{op.removeprefix('bias_')}"})


def by_kernels(kernels: Sequence[str], known: Sequence[Wrapper]) -> Wrapper | None:
    """The one wrapper that has all the generated kernels of a CUDA graph."""
    written = {name for each in known for name in each.kernels}
    wanted = {name for name in kernels if name in written}
    found = [each for each in known if wanted and wanted <= set(each.kernels)]
    return found[0] if len(found) == 1 else None


def by_order(kernels: Sequence[str], wrapper: Wrapper) -> dict[int, list[int]]:
    """Kernels of a CUDA graph by call: between two generated kernels stands one library call."""
    found: dict[int, list[int]] = {}
    start, next_call = 0, 0
    for at, name in [*enumerate(kernels), (len(kernels), "")]:
        places = range(next_call, len(wrapper.calls))
        place = next((p for p in places if wrapper.calls[p].kernel == name), None)
        if place is None and at < len(kernels):
            continue
        end = len(wrapper.calls) if place is None else place
        between = [p for p in range(next_call, end) if wrapper.calls[p].extern]
        held = list(range(start, at))
        if len(between) == 1 and held:
            found[between[0]] = held
        elif len(between) == len(held):
            found |= {p: [row] for p, row in zip(between, held, strict=True)}
        if place is not None:
            found[place] = [at]
            start, next_call = at + 1, place + 1
    return found


def symbols(pairs: Iterable[tuple[SeenOp, KernelCall]]) -> dict[str, int]:
    """Dynamic sizes, from the recorded arguments of ops: `128*s77` is 4096, so `s77` is 32."""
    found: dict[str, int] = {}
    for op, call in pairs:
        if op.arguments is None:
            continue
        shapes = {access.tensor.name: access.tensor.shape for access in call.accesses}
        for at, text in enumerate(call.arguments):
            dims = op.arguments.dims[at] if at < len(op.arguments.dims) else None
            concrete = op.arguments.concrete[at] if at < len(op.arguments.concrete) else ""
            if concrete.lstrip("-").isdecimal():
                found = solve(text, int(concrete)) | found
            for size, value in zip(_shape(text, shapes), dims or (), strict=False):
                if isinstance(value, int):
                    found = solve(size, value) | found
    return found


def _shape(text: str, shapes: dict[str, tuple[Size, ...]]) -> tuple[Size, ...]:
    """The sizes of an argument: those of its name, or of the view that it is."""
    if text in shapes:
        return shapes[text]
    match expression(text):
        case ast.Call(func=function, args=[_, shape, *_]) if dotted(function).endswith(_VIEW):
            return sizes(shape)
    return ()
