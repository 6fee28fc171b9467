"""The document of `foretrace why`: a `CompilerRun` joined with the launches of a trace.

Every kernel of a compiled graph: its lines, nodes, code, traffic and launches.

The traffic of a fused kernel is compared with that of its ops, if each read and wrote its own
tensors. Views move nothing. An op that reads a view reads at most the memory behind it: an expanded
tensor counts once, a slice as the slice. Views that only reorder are in `docs/why.md` ("Strides").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from math import prod
from typing import TYPE_CHECKING

from foretrace.base.errors import UsageError
from foretrace.base.units import plural, sum_of_all
from foretrace.read.compiler.records import (
    Compilation,
    CompilerRun,
    FxGraph,
    GraphNode,
    GuardFailure,
    GuardTally,
    KernelCall,
    NamedTensor,
    SourceLine,
)
from foretrace.read.ledger import LedgerEntry
from foretrace.trace.compiled.accesses import base_op
from foretrace.trace.compiled.assemble import graph_name, parts
from foretrace.trace.compiled.compile_log import by_function, resume_name, stage_times
from foretrace.why import documents
from foretrace.why.documents import (
    CallEntry,
    CompiledKernel,
    GatedMlp,
    RunEntry,
    StrideEntry,
    UnfusedTraffic,
    Why,
)
from foretrace.why.measured import Ran
from foretrace.why.not_fused import separated
from foretrace.work.families import VIEWS

if TYPE_CHECKING:
    from foretrace.trace.trace import Trace


Shape = tuple[object, ...]
NEAREST = 4  # names that an error lists


def compiled_kernels(part: Compilation, graph: str, ran: Ran) -> Iterator[CompiledKernel]:
    """Calls of one kernel with tensors of the same sizes are one entry, in the wrapper's order."""
    generated = {kernel.name: kernel for kernel in part.kernels}
    groups: dict[tuple[str, Shape], list[KernelCall]] = {}
    for call in part.calls:
        sizes = tuple(
            (each.mode, each.tensor.dtype, each.tensor.shape, each.tensor.stride, each.bytes)
            for each in call.accesses
        )
        groups.setdefault((call.kernel, sizes), []).append(call)
    unfused = Unfused(part)
    for calls in groups.values():
        written = generated.get(calls[0].kernel)
        first, found = calls[0], ran.of(calls)
        moved = found.bytes
        nodes = tuple(dict.fromkeys(node for call in calls for node in call.nodes))
        accessed = first if first.bytes is not None else found.sized or first
        levels = {each.certainty for each in accessed.accesses} or {"unknown"}
        certainty = next(
            word for word in ("unknown", "at_most", "at_least", "exact") if word in levels
        )
        lines: dict[tuple[str, int], SourceLine] = {}
        for call in calls:
            for line in call.sources:
                lines.setdefault((line.file, line.line), line)
        yield CompiledKernel(
            first.kernel,
            part.id,
            graph,
            first.extern,
            list(lines.values()),
            list(nodes),
            written.code if written else f"{first.kernel}({', '.join(first.arguments)})",
            written.language if written else "",
            [each for each in first.accesses if each.mode == "load"],
            [each for each in first.accesses if each.mode != "load"],
            moved[0] if first.bytes is None and len(moved) == 1 else first.bytes,
            found.launches,
            found.total_ns,
            found.median_ns,
            min(found.times, default=None),
            max(found.times, default=None),
            certainty,
            unfused.ops(nodes),
            {**(written.config if written else {}), **ran.config(found)},
            found.names,
            ran.kernel(found),
            unfused.traffic(first.nodes),
            [_call(call, ran) for call in calls],
            part.rank,
            [size for size in moved if size is not None],
        )


def _call(call: KernelCall, ran: Ran) -> CallEntry:
    found = ran.of([call])
    runs = [RunEntry(list(run.kernels), run.ns, run.bytes) for run in found.runs]
    nodes, sources = list(call.nodes), list(call.sources)
    return CallEntry(call.name, nodes, sources, found.launches, found.total_ns, runs)


class Unfused:
    """The graphs of one wrapper: what each node reads and writes by itself."""

    def __init__(self, part: Compilation) -> None:
        self.post_grad = _Traffic(part.graph_at("post_grad"))
        self.dynamo = _Traffic(part.graph_at("dynamo"))
        self.decomposed = part.decompositions
        # a node in two kernels is computed twice, or in two steps as a split reduction is
        self.holders = Counter(node for call in part.calls for node in {*call.nodes})
        self.origin: dict[str, list[str]] = {}
        for op, nodes in part.decompositions.items():
            for node in nodes:
                self.origin.setdefault(node, []).append(op)

    def ops(self, nodes: Iterable[str]) -> list[str]:
        """The ops of the user's program behind these post-grad nodes, in the program's order."""
        wanted = {op for node in nodes for op in self.origin.get(node, ())}
        return [op for op in self.decomposed if op in wanted]

    def traffic(self, nodes: Sequence[str]) -> UnfusedTraffic | None:
        """None where no graph is recorded."""
        computing = [node for node in nodes if self.post_grad.computes(node)]
        own = [node for node in computing if self.holders[node] < 2]
        if not own:
            return None
        shared = len(computing) - len(own)
        ops = None if shared else self._by_ops(nodes)
        return UnfusedTraffic(ops, self.post_grad.total(own), shared)

    def _by_ops(self, nodes: Sequence[str]) -> int | None:
        """None unless all of what each op computes is inside."""
        inside = set(nodes)
        ops = []
        for op in self.ops(nodes):
            computed = [each for each in self.decomposed[op] if self.post_grad.computes(each)]
            held = [each for each in computed if each in inside]
            if held and len(held) < len(computed):
                return None
            ops += [op] if held else []
        told = {node for node in inside if self.post_grad.computes(node)}
        known = told <= self.origin.keys() and self.dynamo.nodes.keys() >= {*ops}
        return self.dynamo.total(ops) if ops and known else None


class _Traffic:
    """The bytes that the nodes of one graph read and write."""

    def __init__(self, graph: FxGraph | None) -> None:
        self.nodes = {node.name: node for node in graph.nodes} if graph else {}
        self.inputs = {each.name: each for each in graph.inputs} if graph else {}

    def computes(self, name: str) -> bool:
        """Whether a node moves data; views and what is not in the graph do not."""
        node = self.nodes.get(name)
        return node is not None and not is_view(node)

    def total(self, names: Sequence[str]) -> int | None:
        """Bytes that these nodes read and write one by one; None where one is not known."""
        chosen = [self.nodes[name] for name in names if self.computes(name)]
        parts = [node.tensor.bytes if node.tensor else None for node in chosen]
        parts += [self._read(name) for node in chosen for name in dict.fromkeys(node.inputs)]
        return sum_of_all(parts) if parts else None

    def _read(self, name: str) -> int | None:
        """Bytes behind a name: through views, the fewest on the way."""
        least: int | None = None
        for _ in range(64):  # a chain of views is short; a damaged graph may have a circle
            node = self.nodes.get(name)
            tensor = node.tensor if node else self.inputs.get(name)
            if tensor is None:
                return 0 if least is None and node is None else least
            if tensor.bytes is None:
                return None
            least = tensor.bytes if least is None else min(least, tensor.bytes)
            if node is None or not is_view(node) or not node.inputs:
                return least
            name = node.inputs[0]
        return least


def is_view(node: GraphNode) -> bool:
    """Whether a node only changes how memory is seen."""
    parts = node.target.removesuffix(".default").split(".")
    return node.target.endswith("getitem") or not VIEWS.isdisjoint(parts[-2:])


def kernels_named(why: Why, wanted: str) -> list[CompiledKernel]:
    """The entries of the one kernel that a name, its beginning, a part or its words fit."""
    names: dict[str, list[CompiledKernel]] = {}
    for row in why.kernels:
        calls = (call.handle for call in row.calls)
        for name in {row.name, base_op(row.name), *row.gpu_names, *calls}:
            names.setdefault(name, []).append(row)
    for fits in (str.__eq__, str.startswith, str.__contains__, _has_words):
        rows = {id(row): row for name, each in names.items() if fits(name, wanted) for row in each}
        distinct = {row.name for row in rows.values()}
        if len(distinct) > 1:
            listed = ", ".join(sorted(distinct)[:NEAREST])
            more = f" and {len(distinct) - NEAREST} more" if len(distinct) > NEAREST else ""
            raise UsageError(
                f"{wanted!r} fits {len(distinct)} kernels: {listed}{more}; write more of one"
            )
        found = list(rows.values())
        if found:
            return found
    kernels = list(dict.fromkeys(row.name for row in why.kernels))
    near = get_close_matches(wanted, kernels, n=NEAREST, cutoff=0.3) or kernels[:NEAREST]
    known = f"the nearest: {', '.join(near)}" if near else "the log has no kernel"
    raise UsageError(f"no kernel {wanted!r}; {known}")


def _has_words(name: str, wanted: str) -> bool:
    """Whether the words of `wanted` occur in a name in this order, the first and last as such."""
    words, asked = name.split("_"), wanted.split("_")
    if not wanted or words[0] != asked[0] or words[-1] != asked[-1]:
        return False
    left = iter(words)
    return all(word in left for word in asked)


# Ops that put the dimensions of a tensor into another order.
_ORDERS = frozenset({"permute", "t", "transpose", "swapaxes", "movedim"})
_MATMULS = ("mm", "addmm", "bmm", "baddbmm", "_int_mm")


def strided_views(compilation: Compilation) -> tuple[StrideEntry, ...]:
    """The views of all post-grad graphs whose strides are recorded."""
    return tuple(
        _view(compilation, graph, node, source)
        for graph in compilation.graphs
        if graph.stage == "post_grad"
        for node, source in _reordered(graph)
    )


def layout(call: KernelCall) -> str:
    """The letters of a library's matmul, the second operand first; empty for any other call.

    In torch's order [M, K] x [K, N], a library that counts columns first reads the second operand
    as `t` if its K is contiguous, and the first as `n` if its K is.
    """
    if not call.extern or call.kernel.rpartition(".")[2] not in _MATMULS:
        return ""
    operands = [each.tensor for each in call.accesses if each.mode == "load"][-2:]
    if len(operands) < 2 or any(len(each.stride) < 2 for each in operands):
        return ""
    first, second = (each.stride[-2:] for each in operands)
    letters = {(True, False): "t", (False, True): "n"}
    return letters.get((second[0] == 1, second[1] == 1), "") + letters.get(
        (first[0] == 1, first[1] == 1), ""
    )


def _reordered(graph: FxGraph) -> Iterator[tuple[GraphNode, NamedTensor]]:
    """Nodes that put the dimensions of a tensor, each with its stride, into another order, with
    that tensor.
    """
    tensors = {node.name: node.tensor for node in graph.nodes if node.tensor}
    tensors.update({each.name: each for each in graph.inputs})
    for node in graph.nodes:
        source = tensors.get(node.inputs[0]) if node.inputs else None
        op = node.target.removeprefix("torch.ops.aten.").removeprefix("aten.").partition(".")[0]
        if op not in _ORDERS or not source or not node.tensor:
            continue
        pair = (source, node.tensor)
        if all(len(each.stride) == len(each.shape) for each in pair):
            before, after = (list(zip(each.shape, each.stride, strict=True)) for each in pair)
            if before != after and sorted(before, key=str) == sorted(after, key=str):
                yield node, source


def _view(
    compilation: Compilation, graph: FxGraph, node: GraphNode, source: NamedTensor
) -> StrideEntry:
    assert node.tensor is not None
    wanted = (source.name, node.tensor.shape, node.tensor.stride)
    calls = [
        call
        for call in compilation.calls
        if graph.graph in (None, call.graph)
        and any(
            (each.tensor.name, each.tensor.shape, each.tensor.stride) == wanted
            for each in call.accesses
            if each.mode == "load"
        )
    ]
    letters = next((found for call in calls if (found := layout(call))), "")
    names = tuple(call.name for call in calls)
    view = (node.target, source, node.tensor, names, letters, node.source)
    return StrideEntry(compilation.id, *view, compilation.rank)


ACTIVATIONS = frozenset(["gelu", "silu", "relu"])


def gated_mlps(compilation: Compilation, ran: Ran) -> Iterator[GatedMlp]:
    """Every gated MLP of a graph's forward pass, where matmuls of a library compute it.

    Dynamo's graph shows it as the program wrote it: two linear layers of one input, an activation
    of the first times the second, and a third linear layer.
    """
    graph = compilation.graph_at("dynamo")
    forward = next(iter(parts(compilation)), None)
    if graph is None or forward is None:
        return
    nodes = {node.name: node for node in graph.nodes}
    for down in graph.nodes:
        found = _gated_parts(nodes, down)
        inside = {each for node in found for each in forward.decompositions.get(node.name, ())}
        calls = [call for call in forward.calls if inside.intersection(call.nodes)]
        if found and sum(call.extern for call in calls) >= len(found) - 2:
            gate, _, act, _, down_node = found
            hidden, out = (node.tensor.shape if node.tensor else () for node in (gate, down_node))
            known = [size for size in (*hidden, *out) if isinstance(size, int)]
            size = None
            if hidden and out and len(known) == len(hidden) + len(out):
                size = prod(known[: len(hidden) - 1]), known[-1], known[len(hidden) - 1]
            taken = ran.of(calls).total_ns
            names = [call.name for call in calls]
            yield GatedMlp(
                compilation.id, _op(act), size, names, taken, gate.source, compilation.rank
            )


def _gated_parts(nodes: Mapping[str, GraphNode], down: GraphNode) -> list[GraphNode]:
    """Gate, up, activation, product and down, if a node is the last of these; else nothing."""
    middle = nodes.get(down.inputs[0]) if _op(down) == "linear" and len(down.inputs) == 2 else None
    if middle is None or _op(middle) not in ("mul", "imul") or len(middle.inputs) != 2:
        return []
    for first, second in (middle.inputs, middle.inputs[::-1]):
        act, up = nodes.get(first), nodes.get(second)
        gate = nodes.get(act.inputs[0]) if act and _op(act) in ACTIVATIONS else None
        linear = gate and up and _op(gate) == _op(up) == "linear"
        if act and gate and up and linear and gate.inputs[0] == up.inputs[0]:
            found = [gate, up, act, middle, down]
            return found if len(gate.inputs) == len(up.inputs) == 2 else []
    return []


def _op(node: GraphNode) -> str:
    """`linear` for `torch._C._nn.linear`."""
    return node.target.rpartition(".")[2]


_NO_KERNEL = ("extern", "unpack", "nop")


def explained(
    run: CompilerRun, trace: Trace | None, other: CompilerRun | None = None
) -> documents.Why:
    """Everything that is known about compiled code; `other` is a second run to look into."""
    launches = trace.compiler_records.launches if trace else None
    ran = Ran(run, trace, launches)
    pieces = [(part, graph_name(part)) for each in run.compilations for part in parts(each)]
    costs = [_cost(each) for each in run.compilations]
    pairs, reasons = separated(run, ran, other)
    times = [cost.compile_ns for cost in costs if cost.compile_ns is not None]
    found = documents.Why(
        documents.SCHEMA,
        run.path,
        trace.path if trace else None,
        list(run.sources),
        [*run.lacks, *_not_understood([part for part, _ in pieces])],
        LedgerEntry.of(run.ledger),
        [_stages(part, name, ran) for part, name in pieces if part.graphs or part.code],
        [row for part, name in pieces for row in compiled_kernels(part, name, ran)],
        pairs,
        list(_breaks(run)),
        [
            documents.RecompileEntry(
                each.id, each.function, list(each.recompile), each.compile_ns, each.rank
            )
            for each in run.compilations
            if each.recompile or each.id.rpartition("/")[2].lstrip("0") != ""
        ],
        costs,
        compile_ns=sum(times) if times else None,
        reasons=reasons,
        guards=list(tallies(run.compilations)),
        rerecordings=list(run.rerecordings),
        strides=[row for each in run.compilations for row in strided_views(each)],
        gated_mlps=[row for each in run.compilations for row in gated_mlps(each, ran)],
    )
    if trace is not None and launches is not None:
        gpu = trace.gpu
        found.device, found.steps = trace.about.device, len(trace.spans.steps)
        found.launches = launches.joined
        found.compiled_ns = sum(each.total_ns for each in launches.calls)
        found.gpu_ns = gpu.busy(gpu.usable) if len(gpu) else None
        found.unexplained = [ran.name(event) for event in launches.left]
    return found


def _not_understood(parts: Sequence[Compilation]) -> Iterator[str]:
    lost = sum(bool(part.code) and not _is_understood(part) for part in parts)
    if lost:
        graphs = plural(lost, "graph")
        yield f"the kernels of {graphs}: this kind of generated code is not understood"


def _stages(part: Compilation, name: str, ran: Ran) -> documents.RegionStages:
    calls = part.calls
    found = ran.of(calls)
    dynamo = part.graph_at("dynamo")
    sources = [node.source for node in dynamo.nodes] if dynamo else []
    lines = {(each.file, each.line) for each in sources if each}
    return documents.RegionStages(
        part.id,
        name,
        part.function,
        len(lines) or None,
        _size(dynamo),
        _size(part.graph_at("joint")),
        _size(part.graph_at(name)),
        _size(part.graph_at("post_grad")),
        len(part.before) or None,
        len(part.after) or None,
        sum(not call.extern for call in calls) if _is_understood(part) else None,
        sum(call.extern for call in calls) if calls else None,
        found.launches,
        found.total_ns,
        part.compile_ns if name != "backward" else None,
        part.rank,
        list(part.before),
        list(part.after),
        list(_ops(part, dynamo)),
    )


def _is_understood(part: Compilation) -> bool:
    """Whether the calls can be all of a wrapper's: the scheduler's own nodes need a kernel."""
    own = any(node.kind not in _NO_KERNEL for node in part.after)
    return any(not call.extern for call in part.calls) if own else bool(part.calls)


def _ops(part: Compilation, dynamo: FxGraph | None) -> Iterator[documents.OpMapping]:
    """What became of each op of the Dynamo graph."""
    known = {node.name: node for node in dynamo.nodes} if dynamo else {}
    computing: dict[str, list[str]] = {}
    for call in part.calls:
        for node in call.nodes:
            computing.setdefault(node, []).append(call.name)
    for op, nodes in part.decompositions.items():
        made = known.get(op)
        kernels = dict.fromkeys(name for each in nodes for name in computing.get(each, ()))
        target, source = (made.target, made.source) if made else ("", None)
        yield documents.OpMapping(op, target, source, list(nodes), list(kernels))


def _size(graph: FxGraph | None) -> int | None:
    return len(graph.nodes) if graph else None


def _breaks(run: CompilerRun) -> Iterator[documents.BreakEntry]:
    versions = by_function(run.compilations)
    found = [(each, one) for each in run.compilations for one in each.breaks]
    for each, one in found:
        rest = [other.id for other in versions.get((each.rank, resume_name(one)), ())]
        words = (one.reason, one.explanation, one.hint, one.url)
        yield documents.BreakEntry(each.id, one.source, *words, one.skipped, each.rank, rest)


def _cost(each: Compilation) -> documents.CompileCost:
    return documents.CompileCost(
        each.id,
        each.compile_ns,
        list(each.phases),
        dict(each.cache),
        list(each.cudagraph_skips),
        each.failure,
        each.rank,
        stage_times(each.phases),
        list(each.tuned),
    )


def tallies(compilations: Iterable[Compilation]) -> tuple[GuardTally, ...]:
    """Each guard with the recompilations that it caused and the values that it met."""
    met: dict[tuple[str, str], dict[str, list[GuardFailure]]] = {}
    for compilation in compilations:
        for each in compilation.recompile:
            key = (each.what, each.subject or each.text)
            met.setdefault(key, {}).setdefault(compilation.id, []).append(each)
    return tuple(
        GuardTally(
            what,
            subject,
            tuple(caused),
            tuple(dict.fromkeys(f.expected for fs in caused.values() for f in fs if f.expected)),
            tuple(dict.fromkeys(f.actual for fs in caused.values() for f in fs if f.actual)),
        )
        for (what, subject), caused in met.items()
    )
