"""The calls of compiled graphs in a trace: which kernels each call ran, and for how long.

A row `## Call CompiledFxGraph` is one run of a wrapper. The compile id in a row around it names the
wrapper. A backward run has the sequence number of its forward run. The ops inside follow the calls
of the wrapper in order, by name. Kernels below an op belong to its call. A CUDA graph has no such
ops: the names of its kernels follow the calls.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from foretrace.model.arguments import Arguments
from foretrace.model.compiled.generated_code import sized
from foretrace.model.compiled.graph_runs import (
    GraphRun,
    Regions,
    SeenOp,
    Wrapper,
    aligned,
    by_kernels,
    by_order,
    code_hashes,
    dynamic_sizes,
    matching_wrapper,
    work_names,
    wrappers_of,
)
from foretrace.model.compiled.program_ops import computed_lines
from foretrace.model.gpu import Gpu
from foretrace.model.host import Host
from foretrace.schema.compiler import CompiledLaunch, CompilerRun, KernelCall
from foretrace.schema.tables import Tables

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
    wrappers = wrappers_of(run, rank)
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
        self.hashes = code_hashes(tables)
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
            wrapper = by_kernels(work_names(self.host, self.gpu, loose), wrappers)
        if wrapper is None:
            self.unknown_runs += 1
            return
        for at, call in pairs:
            if self.on_host:
                self._add_op(wrapper, call, graph_run.ops[at], symbols)
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
        for call, held in by_order(work_names(self.host, self.gpu, rows), wrapper).items():
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

    def _add_op(self, wrapper: Wrapper, call: int, op: int, symbols: dict[str, int]) -> None:
        self.host_ops.add(op)
        ran = self._sized(wrapper, call, symbols)
        made = CallRun((op,), (), int(self.host.length[op]), ran.bytes, ran)
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
