"""The document of `foretrace why`: a `CompilerRun` joined with the launches of a trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from foretrace.analyze.why.compiled_kernels import compiled_kernels, strided_views
from foretrace.analyze.why.measured import Ran
from foretrace.analyze.why.not_fused import separated
from foretrace.base.units import plural
from foretrace.model.compiled.assemble import graph_name, parts
from foretrace.model.compiled.compile_log import by_function, resume_name, stage_times
from foretrace.model.compiled.launches import Launches
from foretrace.schema.compiler import Compilation, CompilerRun, FxGraph, GuardFailure, GuardTally
from foretrace.schema.documents import why as documents
from foretrace.schema.ledger import LedgerEntry

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

_NO_KERNEL = ("extern", "unpack", "nop")


def explained(
    run: CompilerRun,
    trace: Trace | None,
    launches: Launches | None,
    other: CompilerRun | None = None,
) -> documents.Why:
    """Everything that is known about compiled code; `other` is a second run to look into."""
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
        [_recompile(each) for each in run.compilations if is_again(each)],
        costs,
        compile_ns=sum(times) if times else None,
        reasons=reasons,
        guards=list(tallies(run.compilations)),
        rerecordings=list(run.rerecordings),
        strides=[row for each in run.compilations for row in strided_views(each)],
    )
    if trace is not None:
        found.device, found.steps = trace.about.device, len(trace.spans.steps)
        found.launches, found.compiled_ns = ran.count, ran.time_ns
        found.gpu_ns, found.unexplained = ran.whole_ns, ran.unexplained
    return found


def _not_understood(parts: Sequence[Compilation]) -> Iterator[str]:
    lost = sum(bool(part.code) and not _is_understood(part) for part in parts)
    if lost:
        graphs = plural(lost, "graph")
        yield f"the kernels of {graphs}: this kind of generated code is not understood"


def is_again(each: Compilation) -> bool:
    """Whether a compilation is another version of a function that had one."""
    return bool(each.recompile) or each.id.rpartition("/")[2].lstrip("0") != ""


def _stages(part: Compilation, name: str, ran: Ran) -> documents.RegionStages:
    calls = part.calls
    found = ran.of(calls)
    dynamo = part.graph_at("dynamo")
    lines = (
        {(node.source.file, node.source.line) for node in dynamo.nodes if node.source}
        if dynamo
        else set()
    )
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


def _recompile(each: Compilation) -> documents.RecompileEntry:
    return documents.RecompileEntry(
        each.id, each.function, list(each.recompile), each.compile_ns, each.rank
    )


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
