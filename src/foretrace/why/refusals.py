"""Inductor's words for not fusing two nodes, as one of a dozen plain reasons.

Inductor says "no shared data" of two nodes that go through one buffer in different ways: it counts
reads and writes that are equal to the letter. Where both touch a buffer, the index expressions say
what is different: the number of elements, or their order. Extern kernels are never asked about.
"""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.schema.compiler import MEMBER, Compilation, FusionChoice, SchedulerNode
from foretrace.why.neighbours import Neighbours, between
from foretrace.why.scheduler import elements

REASONS = {
    "extern": "an extern kernel, that is a library's",
    "template": "a template without that prologue or epilogue",
    "order": "other iteration order",
    "sizes": "different sizes",
    "between": "other kernels lie between them",
    "mutation": "a mutation in between",
    "no_shared_data": "no shared data",
    "not_worth_it": "Inductor's heuristics are against it",
    "unsupported": "Inductor cannot fuse these kinds of nodes",
    "graph_break": "a graph break",
    "other": "another reason of Inductor's",
    "not_recorded": "Inductor's reason was not recorded",
}
# How Inductor's words begin (torch 2.2 to 2.13); the first that occurs in them counts.
_WORDS = (
    ("no shared data", "no_shared_data"),
    ("memory deps did not match", "order"),
    ("tiling mismatch", "order"), ("invalid tiling", "order"), ("invalid loop order", "order"),
    ("numel/rnumel", "sizes"), ("numel incompatibility", "sizes"), ("'s size: ", "sizes"),
    ("do not have same length", "sizes"), ("uses different buf layouts", "order"),
    ("intermediate nodes between", "between"), ("will create cycle", "between"),
    ("must go before", "between"),
    ("aliasing or mutation", "mutation"), ("only fuse functional", "mutation"),
    ("other than the mutated", "mutation"), ("references mutation", "mutation"),
    ("prologue", "template"), ("epilogue", "template"), ("template", "template"),
    ("not yet supported by EVT", "template"), ("is not a Pointwise op", "template"),
    ("is not a ComputedBuffer", "template"), ("computed buffer name", "template"),
    ("is extern", "extern"), ("is nop", "extern"), ("extern or nop", "extern"),
    ("max fusion", "not_worth_it"), ("peak memory", "not_worth_it"),
    ("score_fusion_memory", "not_worth_it"), ("too many reads", "not_worth_it"),
    ("too_many_reads", "not_worth_it"), ("benchmark", "not_worth_it"),
    ("register spilling", "not_worth_it"), ("too far away", "not_worth_it"),
    ("foreach", "unsupported"), ("Split scan", "unsupported"), ("device mismatch", "unsupported"),
    ("explicit disabled", "unsupported"), ("grouped node", "unsupported"),
)  # fmt: skip


def code(words: str) -> str:
    """The plain reason for Inductor's words; a key of `REASONS`."""
    return next((reason for part, reason in _WORDS if part in words), "other")


def why_apart(
    nodes: Sequence[SchedulerNode], pair: Neighbours, refused: Sequence[FusionChoice]
) -> str:
    """Why neighbours stay apart: the last refusal, or what their kinds and places say."""
    a, b = pair.a, pair.b
    if refused:
        found = code(refused[-1].words)
        return _refined(found, a, b) if found in ("no_shared_data", "order") else found
    if "extern" in (a.kind, b.kind):
        return "extern"
    if _mutates(a, b):
        return "mutation"
    if between(nodes, a, b):
        return "between"
    return "template" if "template" in (a.kind, b.kind) else "not_recorded"


def _mutates(a: SchedulerNode, b: SchedulerNode) -> bool:
    """Whether one changes in place what the other uses, or waits for that."""
    changed = set(a.mutates) & set(b.reads) | set(b.mutates) & {*a.reads, *a.writes}
    return bool(changed or set(b.waits) & set(a.writes))


def _refined(found: str, a: SchedulerNode, b: SchedulerNode) -> str:
    """What is different where both go through one buffer: the elements, or their order."""
    if _mutates(a, b):
        return "mutation"
    both = {*a.reads, *a.writes} & {*b.reads, *b.writes}
    walks = [(index_of(a, name), index_of(b, name)) for name in both]
    known = [(elements(one), elements(two)) for one, two in walks if one and two]
    if not known:
        return found
    return "order" if any(one == two for one, two in known) else "sizes"


def refused_for(compilation: Compilation, choice: FusionChoice) -> str:
    """The plain reason for a refusal, by the nodes as they were when Inductor looked at them."""
    found = code(choice.words)
    if found not in ("no_shared_data", "order"):
        return found
    before = {node.name: node for node in compilation.before if node.graph == choice.graph}
    a, b = (_joined(before, name) for name in (choice.a, choice.b))
    return _refined(found, a, b)


def _joined(before: dict[str, SchedulerNode], name: str) -> SchedulerNode:
    """A node as it was when Inductor looked at it: fused from these members."""
    parts = [before[each] for each in MEMBER.findall(name) if each in before]
    return SchedulerNode(
        name,
        "",
        tuple(read for part in parts for read in part.reads),
        tuple(written for part in parts for written in part.writes),
        index=tuple(index for part in parts for index in part.index),
        mutates=tuple(buffer for part in parts for buffer in part.mutates),
        waits=tuple(buffer for part in parts for buffer in part.waits),
    )


def is_about(choice: FusionChoice, a: SchedulerNode, b: SchedulerNode) -> bool:
    """Whether a refusal is about parts of these two nodes."""
    if choice.fused or choice.graph != a.graph:
        return False
    first, second = set(MEMBER.findall(choice.a)), set(MEMBER.findall(choice.b))
    own, other = {*a.members, *a.writes}, {*b.members, *b.writes}
    return (first <= own and second <= other) or (first <= other and second <= own)


def index_of(node: SchedulerNode, buffer: str) -> str:
    """How a node goes through a buffer; empty where the log does not say."""
    return next((index for name, index in node.index if name == buffer), "")
