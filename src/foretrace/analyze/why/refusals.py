"""Inductor's words for not fusing two nodes, as one of a dozen plain reasons.

Inductor says "no shared data" of two nodes that go through one buffer in different ways: it counts
only reads and writes with equal expressions. Where both use a buffer, the index expressions say
what differs: the number of elements, or their order. Inductor does not try to fuse extern kernels.

Behind a graph break Dynamo compiles the code as another function, `torch_dynamo_resume_in_f_at_52`.
A result of the first graph and an argument of the second are the same tensor if they have the same
name, or if no other result and no other argument has that type and these sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from foretrace.analyze.why.measured import Measured
from foretrace.analyze.why.neighbours import Neighbours, NodeOrder, returns
from foretrace.model.compiled.compile_log import by_function, resume_name
from foretrace.model.compiled.scheduler import elements, walk
from foretrace.schema.compiler import (
    MEMBER,
    Compilation,
    CompilerRun,
    FusionChoice,
    NamedTensor,
    SchedulerNode,
    SourceLine,
)
from foretrace.schema.documents.why import NotFused

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


def across_breaks(run: CompilerRun, trace: Measured | None = None) -> tuple[Separation, ...]:
    """Kernels on both sides of a graph break, one of which reads what the other wrote."""
    versions = by_function(run.compilations)
    return tuple(
        _separation(first, second, made, used, tensor, one.source, trace)
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
