"""What was not fused: neighbours that share data and stay two kernels, why, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from foretrace.analyze.why.neighbours import Neighbours, NodeOrder, neighbours, nodes_of_calls
from foretrace.analyze.why.refusals import REASONS, Refusals, index_of, why_apart
from foretrace.analyze.why.savings import Measured
from foretrace.schema.compiler import (
    MEMBER,
    Compilation,
    FusionChoice,
    KernelCall,
    NamedTensor,
    RefusalGroup,
    SchedulerNode,
    Separation,
)


def not_fused(compilation: Compilation, trace: Measured | None = None) -> tuple[Separation, ...]:
    """Every pair of neighbours of a compilation that share data and stay apart."""
    graphs = {node.graph for node in compilation.after} | {each.graph for each in compilation.calls}
    known = _Known(compilation)
    return _two_kernels(
        _separation(known, order, pair, trace)
        for graph in sorted(graphs)
        for order in [NodeOrder(_nodes(compilation, graph))]
        for pair in neighbours(order.nodes, _inputs(compilation, graph))
    )


def _two_kernels(found: Iterable[Separation]) -> tuple[Separation, ...]:
    """One entry for two calls: a C++ kernel may hold several scheduler nodes, one after another."""
    held: dict[object, Separation] = {}
    for each in found:
        known = each.a_call is not None and each.b_call is not None
        if known and each.a_call == each.b_call:
            continue
        key = (each.a_call, each.b_call) if known else id(each)
        if key not in held or (each.bytes or 0) > (held[key].bytes or 0):
            held[key] = each
    return tuple(held.values())


def grouped(
    compilation: Compilation, separations: Sequence[Separation], trace: Measured | None = None
) -> tuple[RefusalGroup, ...]:
    """Refusals and separations by reason, largest saving first; the lines add up."""
    lines: dict[str, list[FusionChoice]] = {}
    refusals = Refusals(compilation)
    for choice in refusals.refused:
        lines.setdefault(refusals.reason(choice), []).append(choice)
    apart: dict[str, list[Separation]] = {}
    for each in separations:
        apart.setdefault(each.reason, []).append(each)
    groups = [
        _group(compilation, reason, lines.get(reason, []), apart.get(reason, []), trace)
        for reason in REASONS
        if reason in lines or reason in apart
    ]
    return tuple(sorted(groups, key=lambda each: (-(each.at_most_ns or 0), -(each.bytes or 0))))


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
            for name in {each.tensor.name for each in call.accesses if each.mode != "load"}:
                self.stores.setdefault((call.graph, name), []).append(place)

    def call(self, node: SchedulerNode) -> int | None:
        """The call that a node became: it writes the same buffers, or changes the same."""
        if node.name.startswith("call"):
            return int(node.name[4:])
        names = (*node.writes, *node.mutates)
        places = {place for name in names for place in self.stores.get((node.graph, name), ())}
        calls = self.compilation.calls
        return max(sorted(places), key=lambda place: _same(calls[place], node), default=None)


def _separation(
    known: _Known,
    order: NodeOrder,
    pair: Neighbours,
    trace: Measured | None,
) -> Separation:
    a, b, compilation = pair.a, pair.b, known.compilation
    refused = known.refusals.about(a, b)
    places = [known.call(node) for node in (a, b)]
    calls = [compilation.calls[place] if place is not None else None for place in places]
    a_ns, b_ns = _times(pair, calls, trace)
    spent = [a_ns, b_ns] if pair.produced else [b_ns]
    moved = [count for count in (pair.written, pair.read) if count is not None]
    shared = pair.shared[0].name
    return Separation(
        _name(calls[0], a),
        _name(calls[1], b),
        why_apart(order, pair, refused),
        refused[-1].words if refused else "",
        sum(each.times for each in refused),
        pair.shared,
        sum(moved) if len(moved) == 2 else None,
        None if None in spent else sum(ns for ns in spent if ns is not None),
        a_ns,
        b_ns,
        a.kind,
        b.kind,
        a.target,
        b.target,
        index_of(a, shared),
        index_of(b, shared),
        a.iteration,
        b.iteration,
        pair.produced,
        tuple(dict.fromkeys(line for call in calls if call for line in call.sources)),
        places[0],
        places[1],
        compilation.id,
        compilation.id,
        a.graph,
    )


def _name(call: KernelCall | None, node: SchedulerNode) -> str:
    return (call.handle or call.kernel) if call else node.name


def _same(call: KernelCall, node: SchedulerNode) -> tuple[int, int, int]:
    stored = {each.tensor.name for each in call.accesses if each.mode != "load"}
    loaded = {each.tensor.name for each in call.accesses if each.mode != "store"}
    changed = stored & set(node.mutates)
    return len(stored & set(node.writes)), len(changed), len(loaded & set(node.reads))


def _group(
    compilation: Compilation,
    reason: str,
    choices: Sequence[FusionChoice],
    apart: Sequence[Separation],
    trace: Measured | None,
) -> RefusalGroup:
    ended = {
        (node.graph, member): node.name for node in compilation.after for member in node.members
    }
    later = [each for each in choices if _end(ended, each, each.a) & _end(ended, each, each.b)]
    moved = [each.bytes for each in apart if each.bytes is not None]
    return RefusalGroup(
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
    compilation: Compilation, apart: Iterable[Separation], trace: Measured | None
) -> int | None:
    """Time of several separations: no kernel saves more than it takes."""
    spent: dict[int, int] = {}
    for each in (one for one in apart if one.at_most_ns is not None):
        for place, ns in ((each.a_call, each.a_ns), (each.b_call, each.b_ns)):
            if place is not None and ns is not None:
                spent[place] = spent.get(place, 0) + ns
    if not spent or trace is None:
        return None
    total = 0
    for place, ns in spent.items():
        total += min(ns, trace.whole(compilation.calls[place]))
    return total


def _times(
    pair: Neighbours, calls: Sequence[KernelCall | None], trace: Measured | None
) -> tuple[int | None, int | None]:
    """What each of the two spends on the shared data in all its runs, where the trace says it."""
    a, b = calls
    if trace is None or a is None or b is None:
        return None, None
    b_ns = trace.spent(b, pair.read, [tensor.name for tensor in pair.shared], a)
    return (trace.spent(a, pair.written, pair.unwritten, b) if pair.produced else None), b_ns
