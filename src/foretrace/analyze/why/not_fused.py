"""What was not fused: neighbours that share data and stay two kernels, why, and what it costs.

Another run of the program, such as one with `mode="max-autotune"`, may have fused them. Two runs
have the same post-grad graph: its nodes have the same names, and each run names their kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TypeVar

from msgspec.structs import replace

from foretrace.analyze.why.measured import Ran
from foretrace.analyze.why.refusals import (
    NO_KERNEL,
    REASONS,
    Neighbours,
    NodeOrder,
    Refusals,
    Separation,
    across_breaks,
    neighbours,
    nodes_of_calls,
    why_apart,
)
from foretrace.base.units import sum_of_all
from foretrace.model.compiled.assemble import graph_name, parts
from foretrace.schema.compiler import (
    MEMBER,
    Compilation,
    CompilerRun,
    Elsewhere,
    FusionChoice,
    KernelCall,
    NamedTensor,
    SchedulerNode,
)
from foretrace.schema.documents.why import NotFused, ReasonRow

_T = TypeVar("_T", ReasonRow, Separation)
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


def _separation(
    known: _Known,
    order: NodeOrder,
    pair: Neighbours,
    trace: Ran | None,
) -> Separation:
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
    return ReasonRow(
        REASONS[reason],
        reason,
        sum(each.times for each in choices),
        len(choices),
        len(later),
        len(apart),
        sum(moved) if moved else None,
        _together(compilation, apart, trace),
    )


def _end(ended: dict[tuple[int, str], str], choice: FusionChoice, name: str) -> set[str]:
    names = {ended.get((choice.graph, member), "") for member in MEMBER.findall(name)}
    return names - {""}


def _together(
    compilation: Compilation, apart: Iterable[Separation], trace: Ran | None
) -> int | None:
    """Time of several separations: no kernel saves more than it takes."""
    spent: dict[int, int] = {}
    for each in (one for one in apart if one.at_most_ns is not None):
        for place, ns in ((each.a_call, each.a_ns), (each.b_call, each.b_ns)):
            if place is not None and ns is not None:
                spent[place] = spent.get(place, 0) + ns
    if not spent or trace is None:
        return None
    calls = compilation.calls
    return sum(min(ns, trace.whole(calls[place])) for place, ns in spent.items())


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
    return pairs, _rows(groups)


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


def _rows(groups: Iterable[ReasonRow]) -> list[ReasonRow]:
    """The groups of all compilations, one row for a reason, the largest saving first."""
    found: dict[str, ReasonRow] = {}
    for group in groups:
        held = found.get(group.code)
        names = ReasonRow.__struct_fields__[2:]
        found[group.code] = _added(held, group, names) if held else group
    rows = found.values()
    return sorted(rows, key=lambda row: (-(row.at_most_ns or 0), -(row.bytes or 0), -row.refusals))


def _added(one: _T, other: _T, names: Iterable[str], **more: object) -> _T:
    """One of two entries, with the sums of both in these fields."""
    sums = {name: _sum((getattr(one, name), getattr(other, name))) for name in names}
    return replace(one, **sums, **more)


def _sum(amounts: Iterable[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None
