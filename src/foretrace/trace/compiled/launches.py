"""The calls of compiled graphs in a trace: which kernels each call ran, and for how long.

A row `## Call CompiledFxGraph` is one run of a wrapper. The compile id in a row around it names the
wrapper. A backward run has the sequence number of its forward run. The ops inside follow the calls
of the wrapper in order, by name. Kernels below an op belong to its call. A CUDA graph has no such
ops: the names of its kernels follow the calls.
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import PurePosixPath

import numpy as np
from msgspec import Struct

from foretrace.base.patterns import regex
from foretrace.read.compiler.records import (
    FUNCTION,
    GRAPH,
    REGION,
    CompiledLaunch,
    CompilerRun,
    GeneratedKernel,
    KernelCall,
    Size,
    version,
)
from foretrace.read.tables import NONE, Tables
from foretrace.trace.arguments import Arguments, Signature
from foretrace.trace.compiled.accesses import base_op, sized
from foretrace.trace.compiled.provenance import computed_lines
from foretrace.trace.compiled.syntax import dotted, expression, solve
from foretrace.trace.compiled.wrapper import sizes
from foretrace.trace.gpu import Gpu
from foretrace.trace.host import Host
from foretrace.trace.intervals import Bools, Ints

_GRAPH = regex(r"\Agraph_\d{1,9}_")


class GraphRun(Struct, frozen=True):
    """One run of a compiled graph: its row, the compile id around it, and its ops in order."""

    row: int
    compile_id: str  # "" where no row around it says
    backward: bool
    ops: tuple[int, ...]


class Regions:
    """The rows `## Call CompiledFxGraph` of a trace, and what was launched below each."""

    def __init__(self, host: Host, gpu: Gpu, tables: Tables) -> None:
        self.host, self.gpu, self.tables = host, gpu, tables
        self.is_graph: Bools = host.named(lambda name: name.startswith(GRAPH)) & host.is_region
        self.is_version: Bools = host.named(lambda name: name.startswith(REGION)) & host.is_op
        # of autograd: `CompiledFunction` and `CompiledFunctionBackward`
        self.functions: Bools = host.named(lambda name: name.startswith(FUNCTION)) & host.is_op
        self.graph_of_work: Ints = host.nearest(gpu.launch, self.is_graph)

    def runs(self) -> list[GraphRun]:
        """Every run in the order of time."""
        rows = np.flatnonzero(self.is_graph)
        order = rows[np.argsort(self.host.start[rows], kind="stable")]
        ops = self._ops_of_graphs()
        return [self._run(int(row), ops.get(int(row), [])) for row in order]

    def _run(self, row: int, ops: list[int]) -> GraphRun:
        host, at = self.host, np.array([row])
        named = int(host.nearest(at, self.is_version)[0])
        function = int(host.nearest(at, self.functions)[0])
        backward = function >= 0 and "Backward" in host.names[host.name[function]]
        if named < 0 and function >= 0:
            forward = self._forward.get(self._sequence.get(function, NONE), -1)
            named = int(host.nearest(np.array([forward]), self.is_version)[0])
        found = version(host.names[host.name[named]]) if named >= 0 else None
        text = f"{found[0]}/{found[1]}" if found else ""
        return GraphRun(row, text, backward, tuple(ops))

    @cached_property
    def _sequence(self) -> dict[int, int]:
        """The sequence number of autograd ops: a backward op has that of its forward op."""
        return dict(self.tables["autograd"].select("event", "sequence").drop_nulls().iter_rows())

    @cached_property
    def _forward(self) -> dict[int, int]:
        host = self.host
        forward = self.functions & ~host.named(lambda name: "Backward" in name)
        rows = [row for row in np.flatnonzero(forward).tolist() if row in self._sequence]
        return {self._sequence[row]: row for row in rows}

    def _ops_of_graphs(self) -> dict[int, list[int]]:
        """The ops of each graph that no other op of it called, in the order of time."""
        host = self.host
        ops = np.flatnonzero(host.is_op & host.lasting)
        graph = host.nearest(ops, self.is_graph)
        ops, graph = ops[graph >= 0], graph[graph >= 0]
        # the graph of the op that called each op, or -1
        above = host.nearest(host.nearest(host.parent[ops], host.is_op), self.is_graph)
        outermost = above != graph
        found: dict[int, list[int]] = {}
        ops, graph = ops[outermost], graph[outermost]
        order = np.argsort(host.start[ops], kind="stable")
        for op, row in zip(ops[order].tolist(), graph[order].tolist(), strict=True):
            found.setdefault(row, []).append(op)
        return found

    def outermost(self, rows: Ints) -> Ints:
        """For each GPU operation the outermost op of its graph that led to it, or -1."""
        host, op, graph = self.host, self.gpu.op[rows], self.graph_of_work[rows]
        op = np.where(host.nearest(op, self.is_graph) == graph, op, -1)
        while True:
            above = host.nearest(np.where(op >= 0, host.parent[op], -1), host.is_op)
            inside = (above >= 0) & (host.nearest(above, self.is_graph) == graph)
            if not inside.any():
                return op
            op = np.where(inside, above, op)


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


def work_names(host: Host, gpu: Gpu, rows: Iterable[int]) -> list[str]:
    """The names of GPU operations."""
    return [host.names[host.name[gpu.id[row]]] for row in rows]


def matching_wrapper(
    graph_run: GraphRun, ops: Sequence[SeenOp], known: Sequence[Wrapper]
) -> Wrapper | None:
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
            one = len({each.compilation for each in found}) == 1
            return found[-1 if graph_run.backward else 0] if one else None
    return found[0] if found else None


def _contradicts(ops: Sequence[SeenOp], wrapper: Wrapper) -> bool:
    """Whether an op proves that other code ran: a missing kernel, another hash, other sizes."""
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


def by_order(
    kernels: Sequence[str], wrapper: Wrapper, fills: Iterable[int] = ()
) -> dict[int, list[int]]:
    """Kernels of a CUDA graph by call: those between two generated kernels are a library call's.

    `fills` are the places of memsets and memcpys, which belong to the kernel after them.
    """
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
        alone = [row for row in held if row not in fills]
        if len(between) == 1 and held:
            found[between[0]] = held
        elif len(between) == len(alone):
            starts = [start, *(row + 1 for row in alone)]
            found |= {
                p: list(range(first, row + 1))
                for p, first, row in zip(between, starts, alone, strict=False)
            }
        if place is not None:
            found[place] = [at]
            start, next_call = at + 1, place + 1
    return found


def dynamic_sizes(pairs: Iterable[tuple[SeenOp, KernelCall]]) -> dict[str, int]:
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
        case ast.Call(func=function, args=[_, shape, *_]):
            return sizes(shape) if dotted(function).endswith("reinterpret_tensor") else ()
    return ()


Matched = tuple[Wrapper | None, list[tuple[int, int]], dict[str, int]]


class CallRun(Struct, frozen=True):
    """One run of a call: its kernels (rows of `trace.events`), their time, the bytes it moved.

    On a CPU the kernel is the op itself, and its time includes profiler overhead.
    """

    kernels: tuple[int, ...]
    copies: tuple[int, ...] = ()  # memcpys and memsets of the same op
    ns: int = 0
    bytes: int | None = None
    call: KernelCall | None = None  # with the sizes that it had in this run


class CallLaunches(Struct, frozen=True):
    """All runs of one call: `run.compilations[compilation].calls[call]`."""

    compilation: int
    call: int
    runs: tuple[CallRun, ...]

    @property
    def total_ns(self) -> int:
        """Time of all kernels."""
        return sum(run.ns for run in self.runs)


class Launches(Struct, frozen=True):
    """What a trace ran of compiled graphs. `left` are compiled kernels that no call explains."""

    calls: tuple[CallLaunches, ...]
    compiled: int  # kernels inside compiled graphs
    left: tuple[int, ...] = ()
    graph_runs: int = 0
    unknown_runs: int = 0  # runs of graphs that the log does not hold
    on_host: bool = False  # no GPU work: kernels are ops, where the trace has rows for them

    @property
    def joined(self) -> int:
        """Compiled kernels that belong to a call."""
        return self.compiled - len(self.left)


def join(
    run: CompilerRun, host: Host, gpu: Gpu, tables: Tables, arguments: Arguments, rank: int | None
) -> Launches:
    """Every kernel of compiled code in the trace, with the call that launched it."""
    wrappers = []  # every graph with calls; those of other ranks are left out
    for at, each in enumerate(run.compilations):
        if rank is not None and each.rank is not None and each.rank != rank:
            continue
        for graph in sorted({call.graph for call in each.calls}):
            places = tuple(p for p, call in enumerate(each.calls) if call.graph == graph)
            kernels = {kernel.name: kernel for kernel in each.kernels if kernel.graph == graph}
            calls = tuple(each.calls[place] for place in places)
            wrappers.append(Wrapper(at, each.id, graph, calls, places, kernels))
    joiner = _Joiner(host, gpu, tables, arguments)
    if joiner.regions.is_graph.any():
        joiner.by_graph_runs(wrappers)
    else:
        joiner.by_names(wrappers)
    return joiner.result()


class _Joiner:
    def __init__(self, host: Host, gpu: Gpu, tables: Tables, arguments: Arguments) -> None:
        self.host, self.gpu, self.arguments = host, gpu, arguments
        self.regions = Regions(host, gpu, tables)
        self.found: dict[tuple[int, int], list[CallRun]] = {}
        self.compiled: set[int] = set()
        self.sized: dict[tuple[object, ...], KernelCall] = {}
        self.matched: dict[tuple[object, ...], Matched] = {}
        # the hash of the code that an op launched, by event: only generated kernels have one
        hashed = tables["triton"].select("event", "kernel_hash").drop_nulls().iter_rows()
        self.hashes = {event: str(text).strip('"') for event, text in hashed}
        self.graph_runs = self.unknown_runs = 0
        self.on_host, self.host_ops = not len(gpu), set[int]()

    def by_graph_runs(self, wrappers: Sequence[Wrapper]) -> None:
        """By the rows of compiled graphs."""
        work = np.flatnonzero(self.regions.graph_of_work >= 0)
        op, graph = self.regions.outermost(work), self.regions.graph_of_work[work]
        below: dict[int, list[int]] = {}
        loose: dict[int, list[int]] = {}
        for at, each, row in zip(work.tolist(), op.tolist(), graph.tolist(), strict=True):
            if self.gpu.is_kernel[at]:
                self.compiled.add(at)
            (below.setdefault(each, []) if each >= 0 else loose.setdefault(row, [])).append(at)
        for graph_run in self.regions.runs():
            self._graph_run(graph_run, wrappers, below, loose.get(graph_run.row, []))

    def _graph_run(
        self,
        graph_run: GraphRun,
        wrappers: Sequence[Wrapper],
        below: dict[int, list[int]],
        loose: list[int],
    ) -> None:
        self.graph_runs += 1
        wrapper, pairs, symbols = self._matched(graph_run, wrappers)
        if wrapper is None and loose:
            written = {name for each in wrappers for name in each.kernels}
            wanted = {name for name in work_names(self.host, self.gpu, loose) if name in written}
            found = [each for each in wrappers if wanted and wanted <= set(each.kernels)]
            wrapper = found[0] if len(found) == 1 else None
        if wrapper is None:
            self.unknown_runs += 1
            return
        for at, call in pairs:
            if self.on_host:
                op = graph_run.ops[at]
                self.host_ops.add(op)
                ran = self._sized(wrapper, call, symbols)
                made = CallRun((op,), (), int(self.host.length[op]), ran.bytes, ran)
                self.found.setdefault((wrapper.compilation, wrapper.places[call]), []).append(made)
            else:
                self._add(wrapper, call, below.get(graph_run.ops[at], []), symbols)
        if loose:
            self._in_order(wrapper, loose, symbols)

    def _matched(self, graph_run: GraphRun, wrappers: Sequence[Wrapper]) -> Matched:
        """Which wrapper ran, which op is which call, and the sizes: once for all such runs."""
        host, numbers = self.host, self.arguments.numbers(np.array(graph_run.ops, int))
        names = [host.names[host.name[op]] for op in graph_run.ops]
        codes = [self.hashes.get(op, "") for op in graph_run.ops]
        key = (graph_run.compile_id, graph_run.backward, *names, *codes, *numbers.tolist())
        if key not in self.matched:
            known = [self.arguments.of(op) for op in graph_run.ops]
            ops = list(map(SeenOp, names, codes, known))
            wrapper = matching_wrapper(graph_run, ops, wrappers)
            pairs = aligned(names, wrapper) if wrapper else []
            calls = wrapper.calls if wrapper else ()
            sizes = dynamic_sizes((ops[at], calls[call]) for at, call in pairs)
            self.matched[key] = (wrapper, pairs, sizes)
        return self.matched[key]

    def _in_order(self, wrapper: Wrapper, rows: list[int], symbols: dict[str, int]) -> None:
        rows = sorted(rows, key=lambda at: int(self.gpu.start[at]))
        fills = {at for at, row in enumerate(rows) if not self.gpu.is_kernel[row]}
        names = work_names(self.host, self.gpu, rows)
        for call, held in by_order(names, wrapper, fills).items():
            self._add(wrapper, call, [rows[at] for at in held], symbols)

    def by_names(self, wrappers: Sequence[Wrapper]) -> None:
        """Without such rows: generated kernels whose name only one wrapper has."""
        gpu = self.gpu
        rows = np.flatnonzero(gpu.is_kernel).tolist()
        named: dict[str, list[int]] = {}
        for at, name in zip(rows, work_names(self.host, self.gpu, rows), strict=True):
            named.setdefault(name, []).append(at)
        for name, held in named.items():
            owners = [wrapper for wrapper in wrappers if name in wrapper.kernels]
            if not owners:
                continue
            self.compiled.update(held)
            calls = [at for at, call in enumerate(owners[0].calls) if call.kernel == name]
            if len(owners) == 1 and calls and len(held) % len(calls) == 0:
                for at, row in enumerate(held):
                    self._add(owners[0], calls[at % len(calls)], [row], {})

    def _add(self, wrapper: Wrapper, call: int, rows: list[int], symbols: dict[str, int]) -> None:
        if not rows:
            return
        gpu = self.gpu
        kernels = [at for at in rows if gpu.is_kernel[at]]
        copies = tuple(int(gpu.id[at]) for at in rows if not gpu.is_kernel[at])
        ns = int(gpu.length[kernels].sum()) if kernels else 0
        ran = self._sized(wrapper, call, symbols)
        made = CallRun(tuple(int(gpu.id[at]) for at in kernels), copies, ns, ran.bytes, ran)
        self.found.setdefault((wrapper.compilation, wrapper.places[call]), []).append(made)

    def _sized(self, wrapper: Wrapper, call: int, symbols: dict[str, int]) -> KernelCall:
        """The call as it ran, made once for all runs with these sizes."""
        key = (wrapper.compilation, wrapper.places[call], *sorted(symbols.items()))
        if key not in self.sized:
            self.sized[key] = sized(wrapper.calls[call], wrapper.kernels, symbols)
        return self.sized[key]

    def result(self) -> Launches:
        calls = tuple(
            CallLaunches(compilation, call, tuple(runs))
            for (compilation, call), runs in sorted(self.found.items())
        )
        joined = {event for each in calls for run in each.runs for event in run.kernels}
        events = {int(self.gpu.id[at]) for at in self.compiled} | self.host_ops
        left = tuple(sorted(events - joined))
        runs, unknown = self.graph_runs, self.unknown_runs
        return Launches(calls, len(events), left, runs, unknown, self.on_host)


def launched(run: CompilerRun, joined: Launches) -> dict[int, CompiledLaunch]:
    """By event: the call that made it."""
    found = {}
    for calls in joined.calls:
        compilation = run.compilations[calls.compilation]
        call = compilation.calls[calls.call]
        lines = computed_lines(compilation, call)
        for ran in calls.runs:
            launch = CompiledLaunch(compilation, ran.call or call, lines)
            found.update(dict.fromkeys((*ran.kernels, *ran.copies), launch))
    return found
