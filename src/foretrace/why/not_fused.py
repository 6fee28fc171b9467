"""What was not fused: neighbours that share data and stay two kernels, why, and what it costs.

Another run of the program, such as one with `mode="max-autotune"`, may have fused them. Two runs
have the same post-grad graph: its nodes have the same names, and each run names their kernels.

A reason is one of a dozen plain ones for Inductor's words (`docs/why.md`). Where both use a buffer,
the index expressions say what differs: the number of elements, or their order. Inductor counts only
reads and writes with equal expressions as shared data.

Behind a graph break Dynamo compiles the code as another function, `torch_dynamo_resume_in_f_at_52`.
A result of the first graph and an argument of the second are the same tensor if they have the same
name, or if no other result and no other argument has that type and these sizes.

Each read counts in one pair: with the kernel that wrote the buffer, or, if it is an input of the
graph and large, with the kernel that read it before. The nodes are those of the scheduler after
fusion. Without that list, the calls of the wrapper have the same reads and writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.patterns import regex
from foretrace.base.units import sum_of_all
from foretrace.read.compiler.records import (
    ITEM_BYTES,
    MEMBER,
    Compilation,
    CompilerRun,
    Elsewhere,
    FusionChoice,
    KernelCall,
    NamedTensor,
    SchedulerNode,
    SourceLine,
)
from foretrace.trace.compiled.assemble import graph_name, parts
from foretrace.trace.compiled.compile_log import by_function, resume_name
from foretrace.trace.compiled.scheduler import elements, split, walk
from foretrace.why.documents import NotFused, ReasonRow
from foretrace.why.measured import Ran

Graph = tuple[tuple[str, str], ...]  # names and targets of the nodes
DEEPEST = 8  # nodes in a row that one kernel keeps to itself; more are not followed


def not_fused(compilation: Compilation, trace: Ran | None = None) -> tuple[Separation, ...]:
    """Every pair of neighbours of a compilation that share data and stay apart."""
    graphs = {node.graph for node in compilation.after} | {each.graph for each in compilation.calls}
    known = _Known(compilation)
    found = [
        _separation(known, order, pair, trace)
        for graph in sorted(graphs)
        for order in [NodeOrder(_nodes(compilation, graph))]
        for pair in neighbours(order.nodes, _inputs(compilation, graph))
    ]
    # One entry for two calls: a C++ kernel may hold several scheduler nodes, one after
    # another.
    held: dict[object, list[Separation]] = {}
    for each in found:
        both = each.a_call is not None and each.b_call is not None
        if not both or each.a_call != each.b_call:
            held.setdefault((each.a_call, each.b_call) if both else id(each), []).append(each)
    return tuple(_one(pairs, compilation, trace) for pairs in held.values())


def _one(pairs: Sequence[Separation], compilation: Compilation, trace: Ran | None) -> Separation:
    """The largest of several pairs of nodes, with what the others share besides."""
    first, *others = sorted(pairs, key=lambda each: -(each.bytes or 0))
    for each in others:
        known = {tensor.name for tensor in first.shared}
        if known.isdisjoint(tensor.name for tensor in each.shared):
            first = _added(
                first, each, ("bytes", "a_ns", "b_ns"), shared=first.shared + each.shared
            )
    if trace is None or not others or first.at_most_ns is None:
        return first
    spent = [
        min(ns, trace.whole(compilation.calls[place]))
        for ns, place in ((first.a_ns, first.a_call), (first.b_ns, first.b_call))
        if ns is not None and place is not None
    ]
    return replace(first, at_most_ns=sum(spent))


def grouped(
    compilation: Compilation, separations: Sequence[Separation], trace: Ran | None = None
) -> list[ReasonRow]:
    """Refusals and separations by reason; the lines add up."""
    lines: dict[str, list[FusionChoice]] = {}
    refusals = Refusals(compilation)
    for choice in refusals.refused:
        lines.setdefault(refusals.reason(choice), []).append(choice)
    apart: dict[str, list[Separation]] = {}
    for each in separations:
        apart.setdefault(each.code, []).append(each)
    return [
        _group(compilation, reason, lines.get(reason, []), apart.get(reason, []), trace)
        for reason in REASONS
        if reason in lines or reason in apart
    ]


def _nodes(compilation: Compilation, graph: int) -> tuple[SchedulerNode, ...]:
    listed = tuple(node for node in compilation.after if node.graph == graph)
    return listed or nodes_of_calls(compilation, graph)


def _inputs(compilation: Compilation, graph: int) -> Iterator[NamedTensor]:
    """Tensors of the wrapper's calls; where one is seen through several views, the largest."""
    accesses = (each for call in compilation.calls if call.graph == graph for each in call.accesses)
    yield from sorted((each.tensor for each in accesses), key=lambda tensor: tensor.bytes or 0)


class _Known:
    """A compilation, with its refusals by node and its calls by the buffers they store."""

    def __init__(self, compilation: Compilation) -> None:
        self.compilation, self.refusals = compilation, Refusals(compilation)
        self.stores: dict[tuple[int, str], list[int]] = {}
        for place, call in enumerate(compilation.calls):
            for name in set(call.stored):
                self.stores.setdefault((call.graph, name), []).append(place)
        self.readers: dict[tuple[int, str], list[SchedulerNode]] = {}
        for node in compilation.after:
            for name in node.reads:
                self.readers.setdefault((node.graph, name), []).append(node)

    def call(self, node: SchedulerNode, depth: int = 0) -> int | None:
        """The call that a node became: it writes the same buffers, or changes the same.

        A C++ kernel keeps a buffer to itself if it holds all nodes that read it.
        """
        if node.name.startswith("call"):
            return int(node.name[4:])
        names = (*node.writes, *node.mutates)
        places = {place for name in names for place in self.stores.get((node.graph, name), ())}
        if not places and depth < DEEPEST:
            readers = (each for name in names for each in self.readers.get((node.graph, name), ()))
            found = (self.call(each, depth + 1) for each in readers)
            return next((place for place in found if place is not None), None)
        calls = self.compilation.calls
        return max(sorted(places), key=lambda place: _same(calls[place], node), default=None)

    def kind(self, node: SchedulerNode, place: int | None) -> str:
        """What a node's kernel is: one with a reduction among its nodes is no pointwise code."""
        kinds = [node.kind, *(self._kinds.get(place, ()) if place is not None else ())]
        return next((kind for kind in kinds if kind != "pointwise"), "pointwise")

    @cached_property
    def _kinds(self) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for node in self.compilation.after:
            if node.kind not in NO_KERNEL and (place := self.call(node)) is not None:
                found.setdefault(place, []).append(node.kind)
        return found


def _separation(known: _Known, order: NodeOrder, pair: Neighbours, trace: Ran | None) -> Separation:
    a, b, compilation = pair.a, pair.b, known.compilation
    refused = known.refusals.about(a, b)
    places = [known.call(node) for node in (a, b)]
    calls = [compilation.calls[place] if place is not None else None for place in places]
    a_ns, b_ns = _times(pair, calls, trace)
    spent = [a_ns, b_ns] if pair.produced else [b_ns]
    shared, found = pair.shared[0].name, why_apart(order, pair, known.refusals)
    return Separation(
        calls[0].name if calls[0] else a.target or a.name,
        calls[1].name if calls[1] else b.target or b.name,
        REASONS[found],
        refused[-1].words if refused else "",
        sum_of_all(spent),
        found,
        sum_of_all((pair.written, pair.read)),
        compilation.id,
        sources=tuple(dict.fromkeys(line for call in calls if call for line in call.sources)),
        refusals=sum(each.times for each in refused),
        shared=pair.shared,
        produced=pair.produced,
        a_target=a.target,
        b_target=b.target,
        a_index=known.refusals.index(a, shared),
        b_index=known.refusals.index(b, shared),
        a_sizes=a.iteration,
        b_sizes=b.iteration,
        b_region=compilation.id,
        a_kind=known.kind(a, places[0]),
        b_kind=known.kind(b, places[1]),
        a_ns=a_ns,
        b_ns=b_ns,
        a_call=places[0],
        b_call=places[1],
        part=a.graph,
    )


def _same(call: KernelCall, node: SchedulerNode) -> tuple[int, ...]:
    stored, loaded = set(call.stored), set(call.loaded)
    return tuple(
        len(mine & set(names))
        for mine, names in ((stored, node.writes), (stored, node.mutates), (loaded, node.reads))
    )


def _group(
    compilation: Compilation,
    reason: str,
    choices: Sequence[FusionChoice],
    apart: Sequence[Separation],
    trace: Ran | None,
) -> ReasonRow:
    ended = {
        (node.graph, member): node.name for node in compilation.after for member in node.members
    }
    later = [each for each in choices if _end(ended, each, each.a) & _end(ended, each, each.b)]
    moved = [each.bytes for each in apart if each.bytes is not None]
    spent: dict[int, int] = {}
    for each in (one for one in apart if one.at_most_ns is not None):
        for place, ns in ((each.a_call, each.a_ns), (each.b_call, each.b_ns)):
            if place is not None and ns is not None:
                spent[place] = spent.get(place, 0) + ns
    if not spent or trace is None:
        together = None
    else:
        calls = compilation.calls
        together = sum(min(ns, trace.whole(calls[place])) for place, ns in spent.items())
    return ReasonRow(
        REASONS[reason],
        reason,
        sum(each.times for each in choices),
        len(choices),
        len(later),
        len(apart),
        sum(moved) if moved else None,
        together,
    )


def _end(ended: dict[tuple[int, str], str], choice: FusionChoice, name: str) -> set[str]:
    names = {ended.get((choice.graph, member), "") for member in MEMBER.findall(name)}
    return names - {""}


def _times(
    pair: Neighbours, calls: Sequence[KernelCall | None], trace: Ran | None
) -> tuple[int | None, int | None]:
    """What each of the two spends on the shared data in all its runs, where the trace says it."""
    a, b = calls
    if trace is None or a is None or b is None:
        return None, None
    b_ns = trace.spent(b, pair.read, pair.memory, a)
    return (trace.spent(a, pair.written, pair.unwritten, b) if pair.produced else None), b_ns


class OtherRun:
    """A second run, by its graphs."""

    def __init__(self, run: CompilerRun) -> None:
        self.run = run
        self._separations: dict[int, tuple[Separation, ...]] = {}

    def made_of(self, one: Separation, mine: Compilation) -> Elsewhere | None:
        """What this run made of a separation of a compilation; None where it has no such graph."""
        same = self._graphs.get((one.part, _graph(mine, one.part)))
        if same is None or one.a_call is None or one.b_call is None:
            return None
        a, b = set(mine.calls[one.a_call].nodes), set(mine.calls[one.b_call].nodes)
        calls = [(place, call) for place, call in enumerate(same.calls) if call.graph == one.part]
        does_a = {place: call for place, call in calls if set(call.nodes) & (a - b)}
        does_b = {place: call for place, call in calls if set(call.nodes) & (b - a)}
        # a template lists the nodes of its operands, too: another kernel computes them
        fused = next(iter(_names(does_a)), "") if set(does_a) == set(does_b) else ""
        apart = (
            each
            for each in self._apart(same)
            if not fused and each.a_call in does_a and each.b_call in does_b
        )
        still = next(apart, None)
        why = (still.code, still.inductor) if still else ()
        return Elsewhere(_names(does_a), _names(does_b), fused, *why)

    @cached_property
    def _graphs(self) -> dict[tuple[int, Graph], Compilation]:
        found: dict[tuple[int, Graph], Compilation] = {}
        for each in self.run.compilations:
            for place in range(len(each.code)):
                if nodes := _graph(each, place):
                    found.setdefault((place, nodes), each)
        return found

    def _apart(self, same: Compilation) -> tuple[Separation, ...]:
        if id(same) not in self._separations:
            self._separations[id(same)] = not_fused(same)
        return self._separations[id(same)]


def _graph(compilation: Compilation, graph: int) -> Graph:
    return tuple((node.name, node.target) for node in compilation.post_grad(graph))


def _names(calls: dict[int, KernelCall]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(call.kernel for call in calls.values()))


def separated(
    run: CompilerRun, ran: Ran, other: CompilerRun | None = None
) -> tuple[list[NotFused], list[ReasonRow]]:
    """Each pair of neighbours that stays apart, and all refusals by reason, largest saving first.

    `other` is another run of the same program: what it made of each pair.
    """
    pairs: list[NotFused] = []
    groups: list[ReasonRow] = []
    measured, second = ran if ran.trace is not None else None, OtherRun(other) if other else None
    broken = across_breaks(run, measured)
    for each in run.compilations:
        found = not_fused(each, measured)
        groups += grouped(each, found, measured)
        made = [second.made_of(one, each) if second else None for one in found]
        pairs += _entries(each, zip(found, made, strict=True))
        behind = [one for one in broken if one.region == each.id]
        groups += _of_breaks(behind)
        pairs += _entries(each, ((one, None) for one in behind))
        broken = tuple(one for one in broken if one.region != each.id)
    by_code: dict[str, ReasonRow] = {}
    for group in groups:
        held = by_code.get(group.code)
        names = ReasonRow.__struct_fields__[2:]
        by_code[group.code] = _added(held, group, names) if held else group
    rows = by_code.values()
    return pairs, sorted(
        rows, key=lambda row: (-(row.at_most_ns or 0), -(row.bytes or 0), -row.refusals)
    )


def _of_breaks(broken: Sequence[Separation]) -> Iterator[ReasonRow]:
    """The pairs across graph breaks as groups: the fusion log does not have them."""
    held: dict[tuple[str, str], list[Separation]] = {}
    for one in broken:
        held.setdefault((one.a, one.shared[0].name if one.shared else ""), []).append(one)
    for rows in held.values():
        again = len(rows) - 1  # what is read behind a break several times was written once
        moved, spent = _sum(one.bytes for one in rows), _sum(one.b_ns for one in rows)
        written = (rows[0].shared[0].bytes or 0) * again if rows[0].shared else 0
        first = max((one.a_ns for one in rows if one.a_ns is not None), default=None)
        less = None if moved is None else max(moved - written, 0)
        told = (REASONS["graph_break"], "graph_break", 0, 0, 0)
        yield ReasonRow(*told, len(rows), less, _sum([first, spent]))


def _entries(
    each: Compilation, found: Iterable[tuple[Separation, Elsewhere | None]]
) -> Iterator[NotFused]:
    graphs = dict(enumerate(graph_name(part) for part in parts(each)))
    for one, made in found:
        held = {name: getattr(one, name) for name in NotFused.__struct_fields__}
        more = {"graph": graphs.get(one.part, ""), "rank": each.rank, "elsewhere": made}
        yield NotFused(**held | more)


def _added(one: _T, other: _T, names: Iterable[str], **more: object) -> _T:
    """One of two entries, with the sums of both in these fields."""
    sums = {name: _sum((getattr(one, name), getattr(other, name))) for name in names}
    return replace(one, **sums, **more)


def _sum(amounts: Iterable[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


# Below 1 MiB a second read is served by the cache of any current GPU, and costs less than a launch.
LARGE = 1 << 20
NO_KERNEL = frozenset({"nop", "unpack"})
_REUSE = regex(r"\s*(\w+) = (?:reinterpret_tensor\()?(\w+)[,;].*# reuse")
_RETURN = regex(r"\s*return \((.*)")
_NAME = regex(r"\b(?:buf|arg|primals_|tangents_)\w*")


class Neighbours(Struct, frozen=True):
    """Two nodes, the buffers through which they share data, and the bytes of both ways."""

    a: SchedulerNode
    b: SchedulerNode
    shared: tuple[NamedTensor, ...]
    written: int | None  # bytes that a need not write, and b need not read
    read: int | None
    produced: bool  # a writes what b reads
    memory: tuple[str, ...] = ()  # the shared buffers as the wrapper names them
    unwritten: tuple[str, ...] = ()  # those that nothing else needs


def neighbours(
    nodes: Sequence[SchedulerNode], inputs: Iterable[NamedTensor] = ()
) -> Iterator[Neighbours]:
    """Each pair once, in the order of the graph; `inputs` are tensors without a node's layout."""
    graph = _Graph(nodes, inputs)
    for (at, to), (made, both) in sorted(graph.pairs().items()):
        a, b = graph.nodes[at], graph.nodes[to]
        tensors = {name: graph.tensors.get(name) or NamedTensor(name) for name in (*made, *both)}
        reads = [_read(b, tensors[name]) for name in made]
        reads += [_least(_read(a, tensors[name]), _read(b, tensors[name])) for name in both]
        spared = [name for name in made if graph.only(name, to)]
        written = sum_of_all(tensors[name].bytes for name in spared)
        memory = [tuple(graph.memory.get(n, n) for n in names) for names in (tensors, spared)]
        shared = tuple(tensors.values())
        yield Neighbours(a, b, shared, written, sum_of_all(reads), bool(made), *memory)


class NodeOrder:
    """The nodes of a graph by their places."""

    def __init__(self, nodes: Sequence[SchedulerNode]) -> None:
        self.nodes = nodes
        self.place = {node.name: at for at, node in enumerate(nodes)}

    def between(self, a: SchedulerNode, b: SchedulerNode) -> bool:
        """Whether a third kernel needs what `a` writes, and `b` what that one writes."""
        own, others = set(a.writes), set[str]()
        for node in self.nodes[self.place[a.name] + 1 : self.place[b.name]]:
            needs = {*node.reads, *node.waits}
            if node.kind in NO_KERNEL and own & needs:
                own.update(node.writes)
            elif (own | others) & needs:
                others.update(node.writes)
        return bool(others & {*b.reads, *b.waits})


def nodes_of_calls(compilation: Compilation, graph: int) -> tuple[SchedulerNode, ...]:
    """The calls of a wrapper as nodes, for logs without the scheduler's list."""
    code = compilation.code[graph] if graph < len(compilation.code) else ""
    reused = {each[1]: each[2] for line in code.splitlines() if (each := _REUSE.match(line))}
    returned = frozenset(returns(code))
    written: set[str] = set()
    found = []
    for place, call in enumerate(compilation.calls):
        if call.graph == graph:
            reads: dict[str, NamedTensor] = {}
            writes: dict[str, NamedTensor] = {}
            for access in call.accesses:
                tensor = access.tensor
                if access.mode != "load":
                    writes[tensor.name] = tensor
                if access.mode != "store":
                    held = tensor.name
                    while held not in written and held in reused:
                        held = reused[held]
                    reads[held] = replace(tensor, name=held)
            kind = "extern" if call.extern else _kind(call.kernel)
            node = SchedulerNode(
                f"call{place}",
                kind,
                tuple(reads),
                tuple(writes),
                target=call.kernel if call.extern else "",
                tensors=tuple(writes.values()),
                graph=call.graph,
                operands=tuple(reads.values()),
                returned=tuple(buffer for buffer in writes if buffer in returned),
                mutates=tuple(buffer for buffer in writes if not buffer.startswith("buf")),
            )
            written.update(node.writes)
            found.append(node)
    return tuple(found)


def returns(code: str) -> tuple[str, ...]:
    """The tensors that a wrapper returns, in order; a view by the name of its buffer."""
    found = [match[1] for line in code.splitlines() if (match := _RETURN.match(line))]
    parts = split(found[-1].rstrip().removesuffix(")")) if found else []
    names = (_NAME.search(part) for part in parts)
    return tuple(name[0] if name else "" for name in names)


def _kind(kernel: str) -> str:
    """What Inductor puts into the names of its kernels: `triton_red_fused_…`, `triton_tem_…`."""
    word = kernel.split("_")[1] if kernel.startswith("triton_") else ""
    kinds = {"poi": "pointwise", "per": "reduction", "red": "reduction", "tem": "template"}
    return kinds.get(word, "foreach" if word == "for" else "generated")


class _Graph:
    """The writer and the readers of each buffer; a node without a kernel is neither."""

    def __init__(self, nodes: Sequence[SchedulerNode], inputs: Iterable[NamedTensor]) -> None:
        self.made_of: dict[str, tuple[str, ...]] = {}
        self.tensors = {tensor.name: tensor for tensor in inputs}
        self.nodes: list[SchedulerNode] = []
        self.returned: set[str] = set()
        self.writer: dict[str, int] = {}
        self.memory: dict[str, str] = {}  # a name for what was changed in place: its buffer
        for node in nodes:
            for tensor in (*node.operands, *node.tensors):
                self.tensors[tensor.name] = tensor
            self._mutated(node)
            if node.kind == "nop":
                self.made_of.update(dict.fromkeys(node.writes, node.reads))
                self.returned.update(node.reads if node.returned else ())
            elif node.kind == "unpack":
                self._unpacked(node)
            else:
                self.writer.update(dict.fromkeys(node.writes, len(self.nodes)))
                self.nodes.append(node)
            self.returned.update(node.returned)
        self.readers: dict[str, list[int]] = {}
        for at, node in enumerate(self.nodes):
            for name in dict.fromkeys(part for each in node.reads for part in self._parts(each)):
                self.readers.setdefault(name, []).append(at)

    def _mutated(self, node: SchedulerNode) -> None:
        """What a library changes in place has a new name and the old memory."""
        unsized = [name for name in node.writes if name not in self.tensors]
        if len(node.mutates) == len(unsized) == 1:
            buffer = self.memory.get(node.mutates[0], node.mutates[0])
            if tensor := self.tensors.get(buffer):
                self.memory[unsized[0]] = buffer
                self.tensors[unsized[0]] = replace(tensor, name=unsized[0])

    def _unpacked(self, node: SchedulerNode) -> None:
        """The results of an extern call are its own."""
        for at in {self.writer[name] for name in node.reads if name in self.writer}:
            each = self.nodes[at]
            self.nodes[at] = replace(each, writes=each.writes + node.writes)
            self.writer.update(dict.fromkeys(node.writes, at))

    def _parts(self, name: str, depth: int = 0) -> Iterator[str]:
        """The buffers that a concatenation consists of: their writers write it."""
        if name in self.made_of and depth < 10:
            for part in self.made_of[name]:
                yield from self._parts(part, depth + 1)
        else:
            yield name

    def pairs(self) -> dict[tuple[int, int], tuple[list[str], list[str]]]:
        """By the places of two nodes: buffers that one makes, and buffers that both read."""
        found: dict[tuple[int, int], tuple[list[str], list[str]]] = {}
        for name, readers in self.readers.items():
            writer, tensor = self.writer.get(name), self.tensors.get(name)
            if writer is not None:
                for at in readers:
                    if writer < at:
                        found.setdefault((writer, at), ([], []))[0].append(name)
            elif tensor is not None and (tensor.bytes or 0) >= LARGE:
                for a, b in pairwise(readers):
                    found.setdefault((a, b), ([], []))[1].append(name)
        return found

    def only(self, name: str, reader: int) -> bool:
        """Whether nothing but this reader needs a buffer."""
        return self.readers.get(name) == [reader] and name not in self.returned


def _read(node: SchedulerNode, tensor: NamedTensor) -> int | None:
    """Bytes that a node reads of a buffer: all of it, or what its index reaches at most."""
    whole, item = tensor.bytes, ITEM_BYTES.get(tensor.dtype)
    counts = [elements(index) for name, index in node.index if name == tensor.name]
    reached = sum_of_all(counts)
    if whole is None or item is None or not counts or reached is None:
        return whole
    return min(whole, item * reached)


def _least(a: int | None, b: int | None) -> int | None:
    known = [each for each in (a, b) if each is not None]
    return min(known) if known else None


REASONS = {
    "extern": "a library kernel (extern)",
    "template": "a template without that prologue or epilogue",
    "order": "other iteration order",
    "loops": "the same order, but other loop dimensions",
    "sizes": "different sizes",
    "between": "other kernels lie between them",
    "mutation": "a mutation in between",
    "no_shared_data": "no shared data",
    "not_worth_it": "Inductor's heuristics are against it",
    "graph_break": "a graph break",
    "other": "another rule of Inductor's",
    "not_recorded": "Inductor's reason was not recorded",
}
# How Inductor's words begin (torch 2.2 to 2.13); the first that occurs in them counts.
WORDS = (
    ("no shared data", "no_shared_data"),
    ("memory deps did not match", "order"),
    ("tiling mismatch", "order"), ("invalid tiling", "order"), ("invalid loop order", "order"),
    ("numel/rnumel", "sizes"), ("numel incompatibility", "sizes"), ("'s size: ", "sizes"),
    ("do not have same length", "sizes"), ("uses different buf layouts", "order"),
    ("intermediate nodes between", "between"), ("will create cycle", "between"),
    ("must go before", "between"),
    ("aliasing or mutation", "mutation"), ("only fuse functional", "mutation"),
    ("other than the mutated", "mutation"), ("references mutation", "mutation"),
    ("amount of bytes read", "not_worth_it"), ("unaligned reads", "not_worth_it"),
    ("not profitable", "not_worth_it"),
    ("prologue", "template"), ("epilogue", "template"), ("template", "template"),
    ("not yet supported by EVT", "template"), ("is not a Pointwise op", "template"),
    ("is not a ComputedBuffer", "template"), ("computed buffer name", "template"),
    ("is extern", "extern"), ("is nop", "extern"), ("extern or nop", "extern"),
    ("max fusion", "not_worth_it"), ("peak memory", "not_worth_it"),
    ("score_fusion_memory", "not_worth_it"), ("too many reads", "not_worth_it"),
    ("too_many_reads", "not_worth_it"), ("benchmark", "not_worth_it"),
    ("register spilling", "not_worth_it"), ("too far away", "not_worth_it"),
    ("foreach", "other"), ("Split scan", "other"), ("device mismatch", "other"),
    ("explicit disabled", "other"), ("grouped node", "other"),
)  # fmt: skip


class Separation(NotFused, frozen=True):
    """Two neighbours that share data and stay two kernels, with what the document leaves out.

    `a_ns` and `b_ns` are what fusing would save of each. `a_call` and `b_call` are places in
    `Compilation.calls`, `part` the place of the graph.
    """

    a_ns: int | None = None
    b_ns: int | None = None
    a_call: int | None = None
    b_call: int | None = None
    part: int = 0


_T = TypeVar("_T", ReasonRow, Separation)


_BY_INDEX = ("no_shared_data", "order")  # the index expressions say more than these words


def code(words: str) -> str:
    """The plain reason for Inductor's words; a key of `REASONS`."""
    return next((reason for part, reason in WORDS if part in words), "other")


class Refusals:
    """The refusals of one compilation, found by the nodes that they are about."""

    def __init__(self, compilation: Compilation) -> None:
        self.refused = [each for each in compilation.choices if not each.fused]
        self.sides = [
            (frozenset(MEMBER.findall(each.a)), frozenset(MEMBER.findall(each.b)))
            for each in self.refused
        ]
        self.places: dict[tuple[int, str], list[int]] = {}
        for place, (first, second) in enumerate(self.sides):
            for member in first | second:
                key = self.refused[place].graph, member
                self.places.setdefault(key, []).append(place)
        self.before = {(node.graph, node.name): node for node in compilation.before}

    def about(self, a: SchedulerNode, b: SchedulerNode) -> list[FusionChoice]:
        """The refusals about parts of two nodes; those that ask in their order come last."""
        own, other = {*a.members, *a.writes}, {*b.members, *b.writes}
        near = {place for member in own for place in self.places.get((a.graph, member), ())}
        found: list[FusionChoice] = []
        turned: list[FusionChoice] = []
        for place in sorted(near):
            first, second = self.sides[place]
            if first <= own and second <= other:
                found.append(self.refused[place])
            elif first <= other and second <= own:
                turned.append(self.refused[place])
        return turned + found

    def index(self, node: SchedulerNode, buffer: str) -> str:
        """How a node goes through a buffer, or did as a template; empty where no log says it."""
        known = (node, *(self.before.get((node.graph, member)) for member in node.members))
        found = (each.index for each in known if each)
        return next((index for held in found for name, index in held if name == buffer), "")

    def reason(self, choice: FusionChoice) -> str:
        """The plain reason for a refusal, by the nodes as they were when Inductor asked.

        Tuning may have replaced a template by a library's kernel since: that came later.
        """
        names = [MEMBER.findall(name) for name in (choice.a, choice.b)]
        found = code(choice.words)
        if found not in _BY_INDEX:
            return found
        a, b = (_joined(self.before, choice.graph, each) for each in names)
        return _refined(found, a, b)


def why_apart(order: NodeOrder, pair: Neighbours, refusals: Refusals) -> str:
    """Why neighbours stay apart: the last refusal, or what their kinds and places say."""
    a, b, refused = pair.a, pair.b, refusals.about(pair.a, pair.b)
    if "extern" in (a.kind, b.kind):  # asked while it was a template
        return refusals.reason(refused[-1]) if refused else "extern"
    if refused:
        found = code(refused[-1].words)
        return _refined(found, a, b) if found in _BY_INDEX else found
    if _mutates(a, b):
        return "mutation"
    return "between" if order.between(a, b) else "not_recorded"


def _mutates(a: SchedulerNode, b: SchedulerNode) -> bool:
    """Whether one changes in place what the other uses, or waits for that."""
    changed = set(a.mutates) & set(b.reads) | set(b.mutates) & {*a.reads, *a.writes}
    return bool(changed or set(b.waits) & set(a.writes))


def _refined(found: str, a: SchedulerNode, b: SchedulerNode) -> str:
    """What is different where both go through one buffer: elements, their order, or only loops."""
    if _mutates(a, b):
        return "mutation"
    passed = {*a.writes} & {*b.reads} | {*b.writes} & {*a.reads}
    shared = passed or {*a.reads, *a.writes} & {*b.reads, *b.writes}
    ways = [(_indices(a, name), _indices(b, name)) for name in shared]
    known = [way for way in ways if all(way)]
    if not known or any(None in _counts(one | two) for one, two in known):
        return found
    if not any(_counts(one) & _counts(two) for one, two in known):
        return "sizes"
    return "loops" if all(_one_walk(one | two) for one, two in known) else "order"


def _indices(node: SchedulerNode, buffer: str) -> frozenset[str]:
    return frozenset(index for name, index in node.index if name == buffer)


def _counts(indices: frozenset[str]) -> set[int | None]:
    return {elements(index) for index in indices}


def _one_walk(indices: frozenset[str]) -> bool:
    walks = {walk(index) for index in indices}
    return len(walks) == 1 and None not in walks


def _joined(
    before: dict[tuple[int, str], SchedulerNode], graph: int, members: list[str]
) -> SchedulerNode:
    """A node as it was when Inductor looked at it: fused from these members."""
    parts = [before[graph, each] for each in members if (graph, each) in before]
    return SchedulerNode(
        "",
        "",
        tuple(read for part in parts for read in part.reads),
        tuple(written for part in parts for written in part.writes),
        index=tuple(index for part in parts for index in part.index),
        mutates=tuple(buffer for part in parts for buffer in part.mutates),
        waits=tuple(buffer for part in parts for buffer in part.waits),
    )


def across_breaks(run: CompilerRun, trace: Ran | None = None) -> tuple[Separation, ...]:
    """Kernels on both sides of a graph break, one of which reads what the other wrote."""
    versions = by_function(run.compilations)
    return tuple(
        _separation_by_break(first, second, made, used, tensor, one.source, trace)
        for first in run.compilations
        for one in first.breaks
        for second in _resumed(versions.get((first.rank, resume_name(one)), []))
        for result, argument, tensor in _passed(first, second)
        for made in _writer(first, result)
        for used in _readers(second, argument)
    )


def _resumed(versions: Iterable[Compilation]) -> Iterable[Compilation]:
    """The first version of the code behind a break: later versions are for other sizes.

    Behind a branch on data there are two such functions, with one name.
    """
    frames: dict[str, Compilation] = {}
    for each in versions:
        frames.setdefault(each.id.rpartition("/")[0], each)
    return frames.values()


def _passed(first: Compilation, second: Compilation) -> Iterator[tuple[int, int, NamedTensor]]:
    """(place of a result, place of the argument that it becomes, the tensor)."""
    before, after = first.graph_at("dynamo"), second.graph_at("dynamo")
    if before is None or after is None:
        return
    tensors = {node.name: node.tensor for node in before.nodes if node.tensor}
    results = [tensors.get(name) for name in before.outputs]
    for place, (name, result) in enumerate(zip(before.outputs, results, strict=True)):
        named = [at for at, each in enumerate(after.inputs) if _variable(each.name) == name]
        same = [at for at, each in enumerate(after.inputs) if result and _same_tensor(each, result)]
        only = (
            len(same) == sum(_same_tensor(each, result) for each in results if each and result) == 1
        )
        found = [at for at in named if at in same] or (same if only else [])
        if result is not None and len(found) == 1:
            yield place, found[0], result


def _variable(placeholder: str) -> str:
    """`L_z_`, `l_z_`: the argument `z`."""
    begins = placeholder[:2] in ("L_", "l_") and placeholder.endswith("_")
    return placeholder[2:-1] if begins else placeholder


def _same_tensor(a: NamedTensor, b: NamedTensor) -> bool:
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


def _separation_by_break(
    first: Compilation,
    second: Compilation,
    made: int,
    used: int,
    tensor: NamedTensor,
    place: SourceLine,
    trace: Ran | None,
) -> Separation:
    a, b = first.calls[made], second.calls[used]
    size, a_ns, b_ns = tensor.bytes, None, None
    if trace and size:
        a_ns, b_ns = trace.spent(a, size, (), b), trace.spent(b, size, (), a)
    return Separation(
        a.name,
        b.name,
        REASONS["graph_break"],
        "",
        sum_of_all((a_ns, b_ns)),
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
