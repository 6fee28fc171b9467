"""What was not fused: neighbours that share data and stay two kernels, why, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from foretrace.schema.compiler import (
    MEMBER,
    Compilation,
    FusionChoice,
    KernelCall,
    RefusalGroup,
    SchedulerNode,
    Separation,
)
from foretrace.why.neighbours import Neighbours, neighbours, nodes_of_calls
from foretrace.why.refusals import REASONS, index_of, is_about, refused_for, why_apart

Ran = Callable[[KernelCall], tuple[int, int] | None]  # runs, and the time of all of them in ns


def not_fused(
    compilation: Compilation, ran: Ran | None = None, bytes_per_s: float | None = None
) -> tuple[Separation, ...]:
    """Every pair of neighbours of a compilation that share data and stay apart.

    `ran` is what the trace says of a call, `bytes_per_s` the bandwidth of its GPU.
    """
    graphs = {node.graph for node in compilation.after} | {each.graph for each in compilation.calls}
    return tuple(
        _separation(compilation, nodes, pair, (ran, bytes_per_s))
        for graph in sorted(graphs)
        for nodes in [_nodes(compilation, graph)]
        for pair in neighbours(nodes)
    )


def grouped(
    compilation: Compilation, separations: Sequence[Separation], ran: Ran | None = None
) -> tuple[RefusalGroup, ...]:
    """Refusals and separations by reason, the dearest first; the lines add up to those logged."""
    lines: dict[str, list[FusionChoice]] = {}
    for choice in compilation.choices:
        if not choice.fused:
            lines.setdefault(refused_for(compilation, choice), []).append(choice)
    apart: dict[str, list[Separation]] = {}
    for each in separations:
        apart.setdefault(each.reason, []).append(each)
    groups = [
        _group(compilation, reason, lines.get(reason, []), apart.get(reason, []), ran)
        for reason in REASONS
        if reason in lines or reason in apart
    ]
    return tuple(sorted(groups, key=lambda each: (-(each.at_most_ns or 0), -(each.bytes or 0))))


def _nodes(compilation: Compilation, graph: int) -> tuple[SchedulerNode, ...]:
    listed = tuple(node for node in compilation.after if node.graph == graph)
    return listed or nodes_of_calls(compilation, graph)


def _separation(
    compilation: Compilation,
    nodes: Sequence[SchedulerNode],
    pair: Neighbours,
    trace: tuple[Ran | None, float | None],
) -> Separation:
    a, b = pair.a, pair.b
    refused = [each for each in compilation.choices if is_about(each, a, b)]
    places = [_call(compilation, node) for node in (a, b)]
    calls = [compilation.calls[place] if place is not None else None for place in places]
    a_ns = _saved(calls[0], pair.written, *trace) if pair.produced else None
    b_ns = _saved(calls[1], pair.read, *trace)
    known = [ns for ns in (a_ns, b_ns) if ns is not None]
    moved = [count for count in (pair.written, pair.read) if count is not None]
    shared = pair.shared[0].name
    return Separation(
        _name(calls[0], a),
        _name(calls[1], b),
        why_apart(nodes, pair, refused),
        refused[-1].words if refused else "",
        sum(each.times for each in refused),
        pair.shared,
        sum(moved) if len(moved) == 2 else None,
        sum(known) if known else None,
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


def _call(compilation: Compilation, node: SchedulerNode) -> int | None:
    """The call that a node became: it writes the same buffers."""
    if node.name.startswith("call"):
        return int(node.name[4:])
    writes = set(node.writes)
    for place, call in enumerate(compilation.calls):
        stored = {each.tensor.name for each in call.accesses if each.mode != "load"}
        if call.graph == node.graph and stored & writes:
            return place
    return None


def _group(
    compilation: Compilation,
    reason: str,
    choices: Sequence[FusionChoice],
    apart: Sequence[Separation],
    ran: Ran | None,
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
        _together(compilation, apart, ran),
    )


def _end(ended: dict[tuple[int, str], str], choice: FusionChoice, name: str) -> set[str]:
    names = {ended.get((choice.graph, member), "") for member in MEMBER.findall(name)}
    return names - {""}


def _together(compilation: Compilation, apart: Iterable[Separation], ran: Ran | None) -> int | None:
    """Time of several separations: no kernel saves more than it takes."""
    spent: dict[int, int] = {}
    for each in apart:
        for place, ns in ((each.a_call, each.a_ns), (each.b_call, each.b_ns)):
            if place is not None and ns is not None:
                spent[place] = spent.get(place, 0) + ns
    if not spent or ran is None:
        return None
    total = 0
    for place, ns in spent.items():
        found = ran(compilation.calls[place])
        total += min(ns, found[1]) if found else 0
    return total


def _saved(
    call: KernelCall | None, count: int | None, ran: Ran | None, bytes_per_s: float | None
) -> int | None:
    """Time that a call spends on these bytes in all its runs, never more than all of it.

    A generated kernel moves bytes at its own rate. What a library's kernel computes meanwhile is
    not known: its bytes count at the bandwidth of the GPU.
    """
    found = ran(call) if ran is not None and call is not None else None
    if found is None or count is None or call is None:
        return None
    runs, total = found
    if not call.extern and call.bytes:
        return round(total * min(count / call.bytes, 1.0))
    return min(round(runs * count / bytes_per_s * 1e9), total) if bytes_per_s else None
