"""Fixes for a whole step: compile it, launch it as one graph, or do what rules advise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from msgspec import Struct

from foretrace.base.patterns import regex
from foretrace.base.units import count_text, plural, time_text
from foretrace.look import rules
from foretrace.look.documents import Finding
from foretrace.look.fixes._step import (
    Changes,
    Proposal,
    Proposals,
    Step,
    Stretches,
    fix,
    issuing,
    of_each,
    optimizing,
    share,
    shown,
    waits_text,
)
from foretrace.look.rules import Rule, traffic_of
from foretrace.look.rules.fusion import COMPILED_CALL_NS, MATMULS, REACH, chains
from foretrace.read.compiler import records as compiled
from foretrace.trace.arguments import made, operands
from foretrace.trace.intervals import Ints
from foretrace.trace.replay import NOTHING, GraphChange
from foretrace.trace.serving import ServedBatch
from foretrace.work.kernel_row import KernelRow

# Of a call, and of a kernel in it: without and with a backward pass.
CALL_NS, KERNEL_NS = (50_000, 500_000), (28_000, 40_000)
COMPILED_SHARES = (0.5, 1.0, 0.25)  # as expected, at best, at worst
REDUCTIONS = frozenset({"reduction", "scan", "normalization", "softmax"})
MEMORY, SHORTEST_NS = 0.75, 2_000.0
INPUT_TENSORS = 2  # tensors of one size from outside, if several are read and no matmul made them
FEW_KERNELS = 3
MANY_CALLS = 32  # calls of one op
DISPATCH_NS = 3_000_000  # an op takes the host 5 to 200 us; one that takes this long does more
PART_LAUNCHES = 50  # launches: compiled code between two waits that has fewer is not worth its call


class Merged(Struct, frozen=True):
    """Rows of kernels that become `kept` kernels, what these move, and their time."""

    rows: Ints
    kept: int
    moved: float
    fused_ns: float


@fix("Compile the model", "gpu shapes", made=lambda step: step.compiled, general=True)
def compile_(step: Step) -> Proposals:
    """Compile the model.

    What it looks for: eager steps with kernels that TorchInductor makes one of (see the finding
    `fusable_pointwise`), or with a host that issues many small ops.

    What must hold: no compiled code and no CUDA graph in the trace. A wait of the host splits the
    compiled code, and each part costs a call of its own; with many waits the fix says that these go
    first.

    What changes: each group of kernels becomes one for each of its reductions, which moves what
    goes in and out at 75% of the bandwidth, at least 2 us. Half of that gain counts where there is
    a reduction, or a backward pass that needs what lies between; at best all of it, at worst a
    quarter. The host keeps 50 us for a compiled call and 28 us for each kernel that is left, with a
    backward pass 500 us and 40 us, or as much as an eager launch takes (an H200's host, torch 2.11:
    155 us with 4 kernels, 1.25 ms with 48; 1.35 ms with 19 and a backward pass, 2.40 ms with 42).
    The optimizer, the DataLoader and long stretches of Python stay.
    """
    host, calls = step.trace.host, step.graph.calls
    launches = int(host.is_launch[calls].sum())
    if (
        launches < FEW_KERNELS
        or host.is_graph_launch[calls].any()
        or any(map(compiled.is_row, host.names))
    ):
        return
    removed, waits = issuing(step, optimizing(step), _libraries(step)), len(step.waiting)
    # the GPU work that the host launches meanwhile
    began = host.start[step.trace.gpu.launch[step.rows]]
    inside = [(began >= start) & (began < end) for start, end in removed]
    rows = step.rows[np.any(inside, axis=0)] if inside else step.rows[:0]
    order = step.trace.order
    mine = np.isin(order.row, rows)
    parts = [part for each in chains(step.trace) if len(part := each[mine[each]]) > 1]
    known: dict[bytes, tuple[int, float, float]] = {}
    for part in parts:
        key = order.case[part].tobytes()
        known[key] = known.get(key) or _fused(step, part)
    groups = [Merged(order.row[part], *known[order.case[part].tobytes()]) for part in parts]
    fused, fewer = sum(len(each.rows) for each in groups), sum(each.kept for each in groups)
    # what is left of the host time that compiled code takes the place of
    kernel = min(KERNEL_NS[step.trains], step.host_ns(removed) / max(len(rows), 1))
    kept = CALL_NS[step.trains] + waits * COMPILED_CALL_NS + (len(rows) - fused + fewer) * kernel
    issued = removed, share(step, removed, kept)
    yield Proposal(
        "torch.compile(model)",
        (f"{count_text(fused)} kernels can fuse into {count_text(fewer)}; " if fused else "")
        + f"{count_text(launches)} launches per step",
        *of_each(partial(_compiled_change, step, groups, issued), COMPILED_SHARES),
        first=waits_text(step) if waits * PART_LAUNCHES > launches else "",
        events=step.events(np.concatenate([*(each.rows for each in groups), step.rows[:1]])),
    )


def _fused(step: Step, places: Ints) -> tuple[int, float, float]:
    """How many kernels a group becomes, the bytes that they move, and their time."""
    if step.device is None:
        return 1, np.inf, np.inf
    order, cases = step.trace.order, _cases(step, places)
    # parts of one reduction that 32 bits cannot index are one
    ops = zip(order.op[places].tolist(), order.case[places].tolist(), cases, strict=True)
    reductions = {(op, number) for op, number, case in ops if case.role in REDUCTIONS}
    kept = max(len(reductions), 1)
    near = np.arange(max(int(places[0]) - REACH, 0), int(places[-1]))
    outside = Counter(made(case) for case in _cases(step, near) if case.role in MATMULS)
    for size in {size for case in cases for _, size in operands(case)}:
        outside[size] = outside[size] or INPUT_TENSORS
    passes = kept * max(case.bytes or 0 for case in cases) if kept > 1 else 0
    moved = max(traffic_of(cases, outside).least, passes)
    return kept, moved, max(step.move_ns(moved) / MEMORY, kept * SHORTEST_NS)


def _cases(step: Step, places: Ints) -> list[KernelRow]:
    order = step.trace.order
    return [step.trace.kernel_rows[number] for number in order.case[places].tolist()]


def _compiled_change(
    step: Step, groups: Sequence[Merged], issued: tuple[Stretches, float], realised: float
) -> GraphChange:
    """The step with this share of what fusing can bring."""
    length, moved, gone = dict[int, float](), dict[int, float](), set[int]()
    for group in groups:
        now, kept = step.ns(group.rows), group.kept
        part = min(2 * realised, 1.0) if kept == 1 and not step.trains else realised
        saved = max(part * (now - group.fused_ns), 0.0)
        length |= dict.fromkeys(group.rows[-kept:].tolist(), (now - saved) / kept)
        moved |= dict.fromkeys(group.rows[-kept:].tolist(), group.moved / kept)
        gone |= set(group.rows[:-kept].tolist())
    return GraphChange(*issued, length, frozenset(gone), moved=moved)


def _libraries(step: Step) -> Stretches:
    """Ops that launch many kernels themselves (cuDNN's RNN), and ops whose host time is no dispatch
    (cuDNN's plans for a new shape): compiled code calls them too.
    """
    host = step.trace.host
    makers, count = np.unique(step.makers(step.graph.calls), return_counts=True)
    makers, count = makers[makers >= 0], count[makers >= 0]
    stays = (count >= MANY_CALLS) | (host.end[makers] - host.start[makers] > DISPATCH_NS)
    return step.stretches(makers[stays].tolist())


# Compiled code gets the graph by a mode; of eager code that mode would fuse the kernels as well.
COMPILED = 'CUDA graph (torch.compile(mode="reduce-overhead"))'
EAGER = "CUDA graph (torch.cuda.make_graphed_callables)"
# By a call, and by each kernel in it: as expected, at best, at worst.
SPENT_NS = ((105_000, 1_500), (85_000, 500), (165_000, 3_000))
BACKWARD_NS, GRADIENT_NS = 400_000, 8_000
PART_NS = 30_000  # to launch one of the graphs of a prefill, with the Python around it
ATTENTION_PARTS = regex(r"attention_with_output|unified_attention")
ACCUMULATE = "torch::autograd::AccumulateGrad"
REPEATED_LAUNCHES = 2
UNKNOWN_SHAPES = "; other shapes are unknown"
ALLOCATES = frozenset(
    {"cudaMalloc", "cudaFree", "cudaMallocAsync", "cudaFreeAsync", "cudaHostAlloc"}
)


def _has_graph(step: Step) -> bool:
    return bool(step.trace.host.is_graph_launch[step.graph.calls].any())


@fix("Launch a step as one CUDA graph", "gpu", made=_has_graph, general=True)
def cuda_graph(step: Step) -> Proposals:
    """Launch a step as one CUDA graph.

    What it looks for: a host that needs longer to issue the work of a step than the GPU to do it.

    What must hold: a graph has fixed shapes and addresses. So no call of the step waits for the
    GPU, none allocates or frees memory of the device, no copy comes from pageable memory, and every
    step launches the same kernels. Where one of these fails, the fix says what must go first, and
    comes last. Of one recorded step it says that the shapes of others are unknown. A batch of a
    serving engine counts as a step: the engine itself has the graphs, and did not use one for this
    batch.

    What changes: one launch brings all work that the model issues; with a backward pass two do, and
    the optimizer keeps its own time. So do the DataLoader and long stretches of Python. A call in
    `mode="reduce-overhead"` keeps 105 us on the host and 1.5 us for each kernel (an H200's host,
    torch 2.11: 107 us with 1 kernel, 165 us with 4, 189 us with 48): guards, copies of the inputs,
    the launch. With a backward pass it keeps 500 us, and 8 us for each gradient that is
    accumulated. Eager kernels stay as they are: what `mode="reduce-overhead"` fuses besides is the
    fix `compile`. The graphs of an engine hold its layers: what it does before and after them keeps
    its time, and so do the attention ops of a prefill. Each part costs 30 us.
    """
    host, calls = step.trace.host, step.graph.calls
    launches = int(host.is_launch[calls].sum())
    alone, steps, served = (
        step.repeats < REPEATED_LAUNCHES,
        step.trace.spans.steps,
        step.trace.served,
    )
    pairs = zip(served.spans, served.batches, strict=True)
    batch = next((batch for span, batch in pairs if span.event == step.span.event), None)
    # a loop has steps; any other call that ran once is no work for a graph
    once = alone and not batch and all(each.event != step.span.event for each in steps)
    if launches < 8 or once or _has_graph(step):  # launches: less than this is no work for a graph
        return
    busy = time_text(step.trace.spans.busy(step.span))
    order = COMPILED if step.compiled else EAGER
    if batch:  # the engine's graphs are off, or for smaller batches
        setting = "no disable_cuda_graph, a larger cuda_graph_max_bs"
        if step.span.name.startswith("execute_"):
            setting = f"no enforce_eager, sizes up to {count_text(batch.tokens)}"
        order = f"CUDA graph in the engine ({setting})"
    why = f"{plural(launches, 'launch', 'launches')} per step for {busy} of GPU work"
    why += UNKNOWN_SHAPES if alone else ""
    first = "" if batch else ", ".join(_obstacles(step))
    events = shown(calls[host.is_launch[calls]])
    yield Proposal(order, why, *_graph_changes(step, batch), first, events=events)


def _host_outside(step: Step, batch: ServedBatch | None) -> Stretches:
    """What no graph of an engine holds: what is no layer, and the attention of a prefill."""
    host, span = step.trace.host, step.span
    ops = step.outermost(step.inside & host.is_op & host.named(ATTENTION_PARTS.search))
    if batch is None or not len(ops):
        return ()
    edges = (span.start_ns, int(host.start[ops[0]])), (int(host.end[ops[-1]]), span.end_ns)
    return edges if batch.kind == "decode" else (*edges, *step.stretches(ops.tolist()))


def _graph_changes(step: Step, batch: ServedBatch | None) -> Changes:
    host, outside = step.trace.host, _host_outside(step, batch)
    removed = issuing(step, optimizing(step), outside)
    began = host.start[step.graph.calls[host.is_launch[step.graph.calls]]]
    kernels = sum(int(((began >= start) & (began < end)).sum()) for start, end in removed)
    fixed = (
        len(outside) * PART_NS + step.trains * BACKWARD_NS + len(step.ops(ACCUMULATE)) * GRADIENT_NS
    )
    free = frozenset[int]() if batch else frozenset(step.waiting.tolist())

    def change(spent: tuple[int, int]) -> GraphChange:
        left = share(step, removed, fixed + spent[0] + kernels * spent[1])
        return GraphChange(removed, left, unwaited=free)

    return of_each(change, SPENT_NS)


def _obstacles(step: Step) -> Iterator[str]:
    """What a graph cannot hold."""
    if waiting := waits_text(step):
        yield waiting
    allocating = int(step.named(ALLOCATES)[step.graph.calls].sum())
    if allocating:
        yield plural(allocating, "allocation of GPU memory", "allocations of GPU memory")
    # steps that launch different kernels; the numbers of AdamW's foreach ops always differ
    order = step.trace.order
    number = step.trace.spans.step_of_work()[order.row]
    cases = step.trace.kernel_rows
    keys = [(case.name, str(case.call.dims) if case.call else case.number) for case in cases]
    shape = np.unique([str(key) for key in keys], return_inverse=True)[1][order.case]
    steps = {np.sort(shape[number == at]).tobytes() for at in np.unique(number[number >= 0])}
    if len(steps) > 1:
        yield "shapes that differ between steps"


@fix("What rules advise", "gpu")
def from_rules(step: Step) -> Proposals:
    """What rules advise where no fix of its own has a file.

    What it looks for: findings that name a change (`Finding.fix`) and a bound for what it saves, of
    rules that say how much of their bound to expect (`Rule.realised`).

    What must hold: the kernels or host events of the finding are in the typical step, as the same
    kernels below the same ops.

    What changes: their time becomes shorter, by the rule's bound at best. Expected is the share of
    it that the rule states, at worst nothing: a bound is no forecast.
    """
    advising = {rule.name: rule for rule in rules.rules() if rule.realised}
    found = step.findings
    if found is None:
        found = [each for rule in advising.values() for each in rules.run(rule, step.trace)]
    for each in found:
        if each.rule in advising and each.fix and each.at_most_ns:
            yield from _advised(step, each, advising[each.rule])


def _advised(step: Step, finding: Finding, rule: Rule) -> Proposals:
    bound, events = float(finding.at_most_ns or 0), np.array(finding.events, np.int64)
    # work of the step of the same kernels below the same ops as these events
    order = step.trace.order
    key = order.case * (int(order.chain.max(initial=0)) + 2) + order.chain
    wanted = np.isin(key, key[np.isin(order.event, events)])
    mine = np.isin(step.rows, order.row[wanted]) | np.isin(step.trace.gpu.id[step.rows], events)
    rows: Ints = step.rows[mine]
    usual, best = (_shorter_rows(step, rows, events, bound * part) for part in (rule.realised, 1))
    if usual != NOTHING:
        changes = usual, best, NOTHING
        yield Proposal(finding.fix, finding.title, *changes, rule.first, events=finding.events)


def _shorter_rows(step: Step, rows: Ints, events: Ints, saved: float) -> GraphChange:
    """GPU work, or without any the host events of the same names, shorter by this time."""
    whole = step.ns(rows)
    if len(rows) and whole > 0:
        return step.shorter(rows.tolist(), max(1 - saved / whole, 0.0))
    host = step.trace.host
    mine = step.outermost(step.inside & np.isin(host.name, host.name[events]))
    mine = mine[~np.isin(mine, step.trace.gpu.id)]
    held = float(host.length[mine].sum())
    left = max(1 - saved / held, 0.0) if held else 0.0
    return GraphChange(step.stretches(mine.tolist()), left) if held else NOTHING
