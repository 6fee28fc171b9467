"""Fixes for optimizers and gradients, and for passes that nobody needs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from foretrace.base.arrays import distinct
from foretrace.base.patterns import regex
from foretrace.base.units import bytes_text, plural
from foretrace.look.fixes._step import (
    LONG_NS,
    MATMULS,
    CpuStep,
    Events,
    Proposal,
    Proposals,
    Speed,
    Step,
    at_speeds,
    cast_in,
    dense,
    fix,
    joined,
    of_each,
    outermost_move,
    shown,
    tops,
)
from foretrace.look.fixes.python import repeats
from foretrace.look.rules import bare
from foretrace.look.rules.training import FEW_KERNELS, FUSED, HAVE_COMPILE, HAVE_FUSED, pass_count
from foretrace.trace import replay
from foretrace.trace.intervals import Ints
from foretrace.trace.module_calls import ENGINE, STEP, closure_ends
from foretrace.trace.replay import GraphChange
from foretrace.work.kernel_row import KernelRow

# A fused step on the host: for each step, for each group of parameters, and for each parameter.
STEP_NS, GROUP_NS = 100_000, 60_000
PARAMETER_NS = {"Adam": 8_000, "AdamW": 8_000, "SGD": 4_000}
# Of the GPU time that one pass keeps: expected and at best.
FUSED_PASS = {"Adam": (0.42, 0.3), "AdamW": (0.42, 0.3), "SGD": (0.62, 0.45)}
COMPILED_PASS = (0.5, 0.3)
SPARSE = regex(r"sparse|coalesce", re.IGNORECASE)
FUSED_ON_CPU = (0.5, 0.85, 0.2)  # of the time goes
FEWEST_PASSES = 3  # ops for each parameter: one alone gains little


def _optimizer_on_cpu(step: CpuStep) -> Proposals:
    for event in steps_of(step).tolist():
        kind, ops = kind_of(step, event), step.computing[step.under(step.computing, [event])]
        fused = any("_fused" in step.name(op) for op in ops.tolist())
        if (
            kind in HAVE_FUSED
            and not fused
            and len(ops) >= FEWEST_PASSES * max(parameters(step), 1)
        ):
            why = f"{kind} runs {plural(len(ops), 'op')} per step, some for each parameter"
            yield step.proposal(f"torch.optim.{kind}(..., fused=True)", why, [event], FUSED_ON_CPU)


def kind_of(step: Step, event: int) -> str:
    """`AdamW` for a step of this optimizer."""
    return step.name(event).removeprefix(STEP).split(".", 1)[0]


@fix("Run the optimizer in one pass", "gpu", on_cpu=_optimizer_on_cpu)
def fused_optimizer(step: Step) -> Proposals:
    """Run the optimizer in one pass (`fused=True`).

    What it looks for: steps of PyTorch's Adam, AdamW or SGD that launch a kernel per operation
    (`foreach`), or one per operation and parameter. Other optimizers of PyTorch have no fused form
    for a GPU: `torch.compile` makes one of their step.

    What must hold: no sparse gradients, which the fused forms refuse, and no fused or compiled
    kernel in the step already.

    What changes: one kernel reads gradient, parameter and state once and writes them once. Adam's
    operations move 21 words per parameter one by one and 7 in one pass, SGD's with momentum 8 and
    5; on an H200 the fused AdamW takes 0.42 of the foreach form's time. The host gains less: a
    fused step still visits each parameter in Python (8 us for Adam's, H200's host, torch 2.11). Of
    the foreach form's host time half of the difference counts, because the profiler's part of it is
    uncertain. At worst the host gains nothing.
    """
    kinds = {event: kind_of(step, event) for event in steps_of(step).tolist()}
    for kind in sorted({*kinds.values()}):
        found = np.array([event for event, each in kinds.items() if each == kind])
        rows = step.below(found)
        rows = rows[step.trace.gpu.is_kernel[rows]]
        known = kind in HAVE_FUSED | HAVE_COMPILE
        if known and len(rows) > FEW_KERNELS * len(found):
            yield from _one_pass(step, kind, found, rows)


def steps_of(step: Step) -> Ints:
    """The ranges of the optimizers' steps; one that runs a whole training step is left out."""
    host = step.trace.host
    regions = step.inside & host.is_region & host.named(lambda name: name.startswith(STEP))
    return step.outermost(regions & (closure_ends(step.trace)[: host.count] < 0))


def _one_pass(step: Step, kind: str, events: Ints, rows: Ints) -> Proposals:
    kernels = {step.name(event) for event in step.trace.gpu.id[rows].tolist()}
    ops = [step.name(event) for event in ops_of(step, events).tolist()]
    if any(map(SPARSE.search, ops)) or any(re.search(FUSED, name) for name in kernels):
        return
    if pass_count(step.trace, rows) == 1:
        return
    fused = kind in HAVE_FUSED
    usual, best = FUSED_PASS[kind] if fused else COMPILED_PASS
    groups = min((ops.count(name) for name in set(ops) if "_foreach" in name), default=len(events))
    # the host time of these steps without the profiler
    cost, calls = replay.COST, len(step.calls_below(events))
    whole = float(step.trace.host.length[events].sum())
    own = max(whole - len(ops) * cost.op - calls * cost.call, replay.LEAST * whole)
    needed = STEP_NS * len(events) + GROUP_NS * groups
    needed += PARAMETER_NS.get(kind, 8_000) * parameters(step)
    left = min(needed / max(own, 1.0), 1.0)
    usual_left = (1 + left) / 2 if any("_foreach" in name for name in ops) else left
    order = f"torch.optim.{kind}(..., fused=True)" if fused else "torch.compile(optimizer.step)"

    def changed(kept: tuple[float, float]) -> GraphChange:
        """One kernel instead of all: shares of the host's and of the GPU's time."""
        host = GraphChange(step.stretches(events.tolist()))
        return joined([step.one_kernel(rows, kept[1] * step.ns(rows)), host], kept[0])

    changes = of_each(changed, ((usual_left, usual), (left / 2, best), (1.0, 1.5 * usual)))
    why = f"{kind} launches {plural(len(rows), 'kernel')} per step"
    yield Proposal(order, why, *changes, events=step.events(rows))


def ops_of(step: Step, events: Events) -> Ints:
    """The ops below these events."""
    ops = np.flatnonzero(step.inside & step.trace.host.is_op)
    found: Ints = ops[step.under(ops, events)]
    return found


def parameters(step: Step) -> int:
    """Parameters that got a gradient; those of a step that accumulates count once."""
    nodes = np.flatnonzero(step.named({"torch::autograd::AccumulateGrad"}))
    made = step.nodes.sequence[nodes]
    return len(distinct(made[made >= 0])) + int((made < 0).sum())


MANY_GROUPS = 16
GROUPS_LEFT = 2  # groups: with and without weight decay
LIST_OPS = ("aten::_fused_", "aten::_foreach_")
GROUPS_SPREAD = (1.0, 0.6, 1.8)  # of the host time that is left


@fix("Few parameter groups", "gpu")
def parameter_groups(step: Step) -> Proposals:
    """Few parameter groups in the optimizer.

    What it looks for: a step of one of PyTorch's optimizers that calls its fused or `foreach` op
    many times, each for a few parameters: one group for each parameter (a weight decay or a
    learning rate of its own).

    What must hold: at least 16 calls of the op in one `optimizer.step()`, and fewer than four
    parameters with a gradient for each of them.

    What changes: parameters of one setting share a group, and two groups remain: with and without
    weight decay. The host then visits each parameter in Python, and launches for two groups. The
    kernels move the same bytes; each that is gone takes its start with it.
    """
    for event in steps_of(step).tolist():
        names = [step.name(op) for op in ops_of(step, [event]).tolist()]
        calls = Counter(name for name in names if name.startswith(LIST_OPS))
        groups, count = min(calls.values(), default=0), parameters(step)
        if groups >= MANY_GROUPS and groups <= count < 4 * groups:  # parameters in a group
            yield _few_groups(step, event, groups, count)


def _few_groups(step: Step, event: int, groups: int, count: int) -> Proposal:
    kind = kind_of(step, event)
    removed, rows = step.stretches([event]), step.below([event])
    cost = STEP_NS + GROUPS_LEFT * GROUP_NS + PARAMETER_NS.get(kind, 8_000) * count
    left = cost / max(step.host_ns(removed), 1.0)
    times, kept = step.trace.gpu.length[rows], rows[: max(len(rows) * GROUPS_LEFT // groups, 1)]
    each = float(times.sum() - times.min() * (len(rows) - len(kept))) / len(kept)
    new, gone = dict.fromkeys(kept.tolist(), each), frozenset(rows[len(kept) :].tolist())
    changes = of_each(
        lambda part: GraphChange(removed, min(part * left, 1.0), new, gone), GROUPS_SPREAD
    )
    order = f"give {kind} two parameter groups: decay and no decay"
    why = f"optimizer.step() runs {groups} groups for {count} parameters"
    return Proposal(order, why, *changes, events=step.events(rows))


NORM_OPS = frozenset({"linalg_vector_norm", "norm"})
_POINTWISE = """
add mul sub div lerp copy zero clamp clamp_min addcmul addcdiv sqrt rsqrt pow neg sign abs square
reciprocal maximum minimum fill clone zeros_like sum to detach
"""
FOREACH_OPS = NORM_OPS | frozenset(
    f"{name}{end}" for name in _POINTWISE.split() for end in ("", "_")
)
LONGEST_ROUND = 24  # ops for one tensor
MANY, SHAPES = 32, 3
KERNEL_NS = 2_000
OPS_NAMED = 4


@fix("Update all parameters in one call", "gpu shapes")
def foreach_loop(step: Step) -> Proposals:
    """Update all parameters in one call, not one by one.

    What it looks for: a loop of pointwise ops or norms over tensors of different shapes, as an
    average of the weights, clipping or a hand-written optimizer makes: the same ops again and
    again, with nothing launched between them.

    What must hold: an op of the loop writes in place or is a norm. None is in the step of one of
    PyTorch's optimizers, which have `fused=True`, or in the backward pass. The shapes are recorded,
    and there are several.

    What changes: `torch._foreach_...` launches a kernel for some thirty tensors, which moves the
    same bytes. On the host a tensor costs 1 us in it, not a call.
    """
    for run in map(np.array, _op_runs(step)):
        loop = _repeating(step, run) if len(run) >= MANY else run[:0]
        dims = {str(call.dims[0]) for at in loop.tolist() if (call := step.call(at)).dims}
        names = {bare(step.name(at)) for at in loop.tolist()}
        writes = names & NORM_OPS or any(name.endswith("_") for name in names)
        if len(loop) >= MANY and len(dims) >= SHAPES and writes:
            yield _one_call(step, loop)


def _repeating(step: Step, run: Ints) -> Ints:
    """The longest part of a run in which the same names repeat."""
    names = [bare(step.name(at)) for at in run.tolist()]
    codes = np.array([names.index(name) for name in names], np.int64)
    found = [each for length in range(1, LONGEST_ROUND + 1) for each in repeats(codes, length)]
    start, size = max(found, key=lambda each: each[1], default=(0, 0))
    part: Ints = run[start : start + size]
    return part


def _op_runs(step: Step) -> Iterator[list[int]]:
    """Ops of these names that follow each other, with nothing launched between."""
    host, run = step.trace.host, list[int]()
    # below the step of one of PyTorch's optimizers, or a node of the backward pass
    own = (*(f"{STEP}{kind}." for kind in HAVE_FUSED | HAVE_COMPILE), ENGINE)
    elsewhere = host.nearest(np.arange(host.count), host.named(lambda name: name.startswith(own)))
    above = host.nearest_op(step.trace.gpu.launch[step.rows])
    launching = set(step.callers(above[above >= 0]).tolist())
    for event in step.outermost(step.inside & host.is_op).tolist():
        if event in launching and bare(step.name(event)) in FOREACH_OPS and elsewhere[event] < 0:
            run.append(event)
        elif event in launching:
            yield run
            run = []
    yield run


def _one_call(step: Step, run: Ints) -> Proposal:
    names = Counter(bare(step.name(event)) for event in run.tolist())
    rows, removed = step.below(run), step.with_gaps(run)
    cost = len(run) * (replay.COST.op + replay.COST.call)
    held = max(sum(end - start for start, end in removed) - cost, 1)
    left = min(len(run) * 1_000 / held, 1.0)  # on the host, for each tensor of a call
    kernels = max(len(run) // 30, len(names))  # that one kernel takes
    moved = step.move_ns(step.total(rows, lambda case: case.bytes)) / 0.8  # of the bandwidth
    ns = max(min(moved, step.ns(rows)), kernels * KERNEL_NS)
    gone = frozenset(rows[1:].tolist())
    change = GraphChange(removed, left, {int(rows[0]): ns}, gone)
    worst = GraphChange(removed, min(3 * left, 1.0), {int(rows[0]): step.ns(rows)}, gone)
    why = f"{plural(len(run), 'call')} of {', '.join(list(names)[:OPS_NAMED])} on one tensor each"
    return Proposal(_foreach_order({*names}), why, change, worst=worst, events=step.events(rows))


def _foreach_order(names: set[str]) -> str:
    """What to call: by the ops that only one kind of loop has."""
    if "sqrt" in names and any(name.startswith(("addcdiv", "div")) for name in names):
        return "torch.optim.AdamW(..., fused=True), not a loop of ops"
    if names & NORM_OPS and len(names) > 1:
        return "torch.nn.utils.clip_grad_norm_, not a loop of norms"
    if len(names) > 1:
        return "torch._foreach_lerp_ or other _foreach_ ops, not a loop"
    name = next(iter(names))
    return f"torch._foreach_{name.removeprefix('linalg_vector_')} over all tensors, not a loop"


TABLE_BACKWARD = "aten::embedding_dense_backward"
LARGE, LARGE_ON_CPU = 64 << 20, 1 << 20
SPARSE_ON_CPU = (0.9, 0.97, 0.5)  # of the time of ops on the whole table
UNIQUE_NS = 150_000
MOST_OF_OPTIMIZER = 0.95
ADAM_MOVES = 7  # an Adam reads four tensors of the table's size and writes three
TABLE_READS = ("embedding", "index_select", "index")
SPARSE_ORDER = "use nn.Embedding(sparse=True) with SparseAdam"
SPARSE_RISK = "only SGD, Adagrad and SparseAdam take sparse gradients; momenta of unread rows stay"


class DenseTable(Struct, frozen=True):
    """An embedding's gradient: the op, the bytes of the table, and of the rows that are read."""

    event: int
    size: int
    read: int
    dims: tuple[int, ...]

    @property
    def why(self) -> str:
        """What is filled for nothing."""
        share = f"{100 * self.read / self.size:.1f}%"
        return f"a gradient of {bytes_text(self.size)} is filled, of which {share} are not zero"


def _tables_on_cpu(step: CpuStep) -> Proposals:
    """The ops on tensors of a table's shape: its gradient, its momenta, its update."""
    calls = step.arguments
    products = (call for at, call in calls.items() if step.bare(at) in MATMULS)
    tied = {tuple(sorted(each.dims)) for call in products for each in dense(call)}
    found = [_dense_table(step, event, LARGE_ON_CPU) for event in step.ops(TABLE_BACKWARD).tolist()]
    tables = [table for table in found if table and tuple(sorted(table.dims)) not in tied]
    shapes = {table.dims for table in tables}
    events = [at for at, call in calls.items() if any(t.dims in shapes for t in dense(call)[:1])]
    events = [at for at in events if step.bare(at) not in TABLE_READS]
    if tables and events:
        why = max(tables, key=lambda table: table.size).why
        yield step.proposal(SPARSE_ORDER, why, events, SPARSE_ON_CPU, SPARSE_RISK)


@fix("Sparse gradients for an embedding", "gpu shapes", on_cpu=_tables_on_cpu)
def dense_gradients(step: Step) -> Proposals:
    """Sparse gradients for a large embedding.

    What it looks for: `embedding_dense_backward` for a table of at least 64 MB (on a CPU 1 MB) of
    which a step reads at most a tenth of the rows. The gradient of the whole table is filled with
    zeros, and the optimizer goes through all of it.

    What must hold: no matmul writes a gradient of the same shape (a table that is the output layer
    too has a dense gradient anyway), and the optimizer's kernels state their bytes.

    What changes: the fill becomes a write of the rows that were read. The optimizer's time shrinks
    by the share of the table in what it moves. `SparseAdam` makes indices unique in small kernels,
    for which a fixed time is added. On a CPU nine tenths of the ops on tensors of the table's shape
    go.
    """
    tables = [
        table for event in step.ops(TABLE_BACKWARD).tolist() if (table := _dense_table(step, event))
    ]
    # a matmul that writes a gradient of the same size has the table too
    tied = {case.bytes_written for case in step.cases if case.role == "gemm"}
    tables = [table for table in tables if table.size not in tied]
    if not tables:
        return
    first = max(tables, key=lambda table: table.size)
    changes = at_speeds(lambda speed: _sparse(step, tables, speed))
    events = tuple(table.event for table in tables)
    yield Proposal(SPARSE_ORDER, first.why, *changes, risk=SPARSE_RISK, events=events)


def _dense_table(step: Step, event: int, least: int = LARGE) -> DenseTable | None:
    """The table of this backward op, where it is large and mostly not read."""
    call = step.call(event)
    grad, count = call.tensor(0), call.integer(2)
    if not grad or not count or not grad.dims or not grad.bytes:
        return None
    rows = grad.elements // max(grad.dims[-1], 1)
    size = count * grad.bytes // max(rows, 1)
    large = size >= least and rows <= 0.1 * count  # of the table's rows
    return DenseTable(event, size, grad.bytes, (count, grad.dims[-1])) if large else None


def _sparse(step: Step, tables: list[DenseTable], speed: Speed) -> GraphChange:
    def is_fill(case: KernelRow | None) -> bool:
        return case is not None and ("fill" in case.op or case.op == "aten::zero_")

    def filled(table: DenseTable) -> GraphChange:
        """The fill of the gradient, as long as the rows take that are read."""
        ns, rows = step.memory_ns(speed, table.read), step.below([table.event]).tolist()
        fills = [row for row in rows if is_fill(step.case(row))]
        return GraphChange(length={row: min(ns, step.ns([row])) for row in fills})

    fills = joined(map(filled, tables))
    updates = step.rows_where(lambda case: case.role == "optimizer" and bool(case.bytes))
    moved = step.total(updates, lambda case: case.bytes)
    if not moved:
        return fills
    away = min(ADAM_MOVES * sum(table.size for table in tables), MOST_OF_OPTIMIZER * moved)
    shorter, first = step.shorter(updates.tolist(), 1 - away / moved), int(updates[0])
    shorter.length[first] = min(shorter.length[first] + UNIQUE_NS, step.ns([first]))
    return joined([fills, shorter])


ACCUMULATE_GRADIENT = f"{ENGINE}torch::autograd::AccumulateGrad"


@fix("Walk a graph backward once", "gpu")
def repeated_backward(step: Step) -> Proposals:
    # runs of nodes in order of time, outermost
    """Walk a graph backward once: the sum of the losses.

    What it looks for: autograd nodes that run several times in a step
    (`backward(retain_graph=True)` once for each loss).

    What must hold: each pass ends in gradients of parameters (`AccumulateGrad`), so their sum is
    what the program wants. No optimizer steps between the passes. No pass makes nodes itself: the
    gradient of a gradient cannot be added up.

    What changes: each node runs once; the later runs go, on the host and on the GPU. A node that
    only one loss has stays.
    """
    named = step.trace.host.named(lambda name: name.startswith(ENGINE))
    nodes = step.outermost(step.inside & named)
    nodes = nodes[step.nodes.sequence[nodes] >= 0]
    made = np.stack((step.nodes.sequence[nodes], step.nodes.thread[nodes]))
    _, first, count = np.unique(made, axis=1, return_index=True, return_counts=True)
    again = np.delete(nodes, first)
    if len(again) < 4 or not _adds_up(step, nodes, again):  # nodes: less is no graph of a model
        return
    again = np.concatenate((again, _extra_gradients(step, again)))
    order = "one backward pass: (loss1 + loss2).backward()"
    why = f"{int(count.max())} backward passes per step run {plural(len(again), 'node')} again"
    change = step.without(again, step.with_gaps(again))
    yield Proposal(order, why, change, events=step.events(step.below(again)))


def _adds_up(step: Step, nodes: Ints, again: Ints) -> bool:
    host = step.trace.host
    first, last = int(host.start[nodes].min()), int(host.end[again].max())
    within = step.inside & (host.start >= first) & (host.start < last)
    if (within & host.named(lambda name: name.startswith(STEP))).any():
        return False
    made = np.flatnonzero(step.nodes.made[: host.count] & within & host.is_op)
    made = made[step.under(made, nodes)]
    walked = np.isin(step.nodes.sequence[made], step.nodes.sequence[nodes])
    return (
        not walked.any()
        and len(step.ops(ACCUMULATE_GRADIENT)) > len(_extra_gradients(step, again)) > 0
    )


def _extra_gradients(step: Step, again: Ints) -> Ints:
    """Gradients that the later passes add to those of the first."""
    host, found = step.trace.host, step.ops(ACCUMULATE_GRADIENT)
    later: Ints = found[host.start[found] >= host.start[again].min()]
    return later[~np.isin(later, again)]


RECOMPUTED_LAYERS = frozenset(
    {
        "aten::linear", "aten::layer_norm", "aten::rms_norm", "aten::batch_norm", "aten::conv1d",
        "aten::conv2d", "aten::conv3d", "aten::scaled_dot_product_attention", "aten::gelu",
        "aten::silu", "aten::relu", "aten::softmax", "aten::embedding", "aten::dropout",
    }
)  # fmt: skip


@fix("Activations kept, not recomputed", "gpu")
def checkpoint(step: Step) -> Proposals:
    """Blocks that keep their activations, without torch.utils.checkpoint.

    What it looks for: ops of the forward pass below nodes of the backward pass. A backward op runs
    with autograd off and has no sequence number; an op that a checkpoint runs again has one.

    What must hold: whole layers are among them (linear, layer_norm, convolution, attention), and
    each of these ran in the forward pass before.

    What changes: the recomputed ops are gone, with their host time and their GPU work. The price is
    the memory of their results, which the risk names.
    """
    host = step.trace.host
    is_node, made = step.nodes.is_node[: host.count], step.nodes.made[: host.count]
    # ops that make nodes while the backward pass runs
    rows = np.flatnonzero(step.inside & made)
    under = rows[host.nearest(host.parent[rows].astype(np.int64), is_node) >= 0]
    again = step.outermost(step.marked(under))
    layers = [event for event in again.tolist() if step.name(event) in RECOMPUTED_LAYERS]
    # each of these also ran outside of the backward pass
    every = np.flatnonzero(step.named(RECOMPUTED_LAYERS))
    before = {step.name(event) for event in every[host.nearest(every, is_node) < 0].tolist()}
    if not layers or not {step.name(event) for event in layers} <= before:
        return
    # from the first to the last of these ops below each node: Python runs between them
    node, rows = host.nearest(again, is_node), step.below(again)
    parts = [again[node == each] for each in np.unique(node).tolist()]
    removed = tuple((int(host.start[part].min()), int(host.end[part].max())) for part in parts)
    size = bytes_text(int(step.total(rows, lambda case: case.bytes_written)))
    why = f"{plural(len(layers), 'layer')} of the forward pass run again in the backward pass"
    order = "drop torch.utils.checkpoint, or keep it for fewer blocks"
    risk = f"activations stay in memory: up to {size} more"
    change = GraphChange(removed, gone=frozenset(rows.tolist()))
    yield Proposal(order, why, change, risk=risk, events=shown(layers))


DROPOUT = ("aten::dropout", "aten::native_dropout", "aten::feature_dropout", "aten::dropout_")
_TAKERS = "linear conv1d conv2d conv3d matmul mm"
TAKERS = tuple(f"aten::{name}" for name in _TAKERS.split())
NARROW = frozenset({"c10::BFloat16", "c10::Half"})
NODE_NS = (5_000, 8_000, 2_000)  # as expected, at best, at worst
NARROW_RISK = "weights in bf16 have 8 bits of precision: compare an output"


@fix("Inference without what training needs", "gpu")
def inference_mode(step: Step) -> Proposals:
    """Inference without what training needs.

    What it looks for: a program without a backward pass whose ops make autograd nodes, which runs
    dropout, or which converts float32 weights to 16 bit in every step (`.to()`, `torch.autocast`).

    What must hold: no backward pass anywhere in the recording. Ops that make nodes have numbers
    that go on; where there are no nodes, ops have no number or all the same one. Dropout in
    `eval()` launches nothing. Converted tensors are weights if matmuls or convolutions of the step
    have weights or biases of their shapes, and no inputs.

    What changes: an op takes 5 us less on the host without its node (an H200's host, torch 2.11).
    The kernels of dropout and of conversions go with the host time of their ops.
    """
    if step.nodes.is_node.any():
        return
    made = step.nodes.op[step.nodes.op < step.trace.host.count]
    ops = made[step.inside[made]]
    if len(distinct(step.nodes.sequence[ops])) >= 8:  # a few may be a gradient that somebody wants
        removed = step.stretches(distinct(step.callers(ops)).tolist())
        host_ns, count = max(step.host_ns(removed), 1.0), len(ops)
        changes = of_each(
            lambda ns: GraphChange(removed, max(1 - count * ns / host_ns, 0.3)), NODE_NS
        )
        why = f"{plural(count, 'op')} per step make autograd nodes, and no backward pass follows"
        order = "run inference under torch.no_grad() or inference_mode()"
        yield Proposal(order, why, *changes, events=shown(ops))
    drops = step.ops(*DROPOUT)
    drops = drops[[len(step.below([event])) > 0 for event in drops.tolist()]]
    if len(drops):
        why = f"{plural(len(drops), 'call')} of dropout per step, and no backward pass"
        order = "call model.eval(): dropout is on"
        yield Proposal(order, why, step.without(drops), events=shown(drops))
    # the shapes of weights and biases that no input has
    calls = [step.call(op) for op in step.ops(*TAKERS).tolist()]
    taken = [each for call in calls for at in (1, 2) if (each := call.tensor(at)) and each.dims]
    inputs = {first.dims for call in calls if (first := call.tensor(0))}
    weights = {each.dims for each in taken} - inputs

    def narrows(case: KernelRow) -> bool:
        """Whether a kernel turns a weight from float32 into 16 bit."""
        if not (pair := cast_in(case)):
            return False
        source, target = pair
        return source.type == "float" and target.type in NARROW and source.dims in weights

    rows = step.rows_where(narrows)
    makers = step.makers(step.trace.gpu.launch[rows])
    casts = distinct(np.array([outermost_move(step, op) for op in makers.tolist()], np.int64))
    if len(casts) >= 4:
        order = "load the weights in 16 bit: model.to(torch.bfloat16)"
        why = f"{len(casts)} conversions of float32 weights per step"
        change = step.without(casts, step.with_gaps(casts))
        yield Proposal(order, why, change, risk=NARROW_RISK, events=step.events(rows))


_LAYERS = "linear matmul mm addmm bmm conv1d conv2d conv3d gru lstm rnn_tanh rnn_relu"
LAYERS = frozenset(f"aten::{name}" for name in (*_LAYERS.split(), "scaled_dot_product_attention"))
UNUSED_SHARES = (0.9, 1.0, 0.1)


@fix("Use the outputs of the training pass again", steps="cpu")
def unused_forward(step: CpuStep) -> Proposals:
    """Use the outputs of the training pass again.

    What it looks for: on a CPU, a forward pass of a training step whose autograd nodes no backward
    pass uses: one for each metric, often.

    What must hold: it runs every matmul, convolution, attention and recurrent layer of the pass
    that is differentiated, with the same shapes. Parts that stay unused, such as a head or a
    detached generator, are no whole pass.

    What changes: the pass goes. At worst it stays, without nodes: a tenth of its time.
    """
    if not step.trains:
        return
    ops, nodes = tops(step), step.nodes
    made = nodes.made_by(np.flatnonzero(nodes.is_node & step.inside))
    # the outermost ops around those that make nodes, and around those whose nodes run
    makes, used = (
        ops[np.isin(ops, step.callers(inner))]
        for inner in (nodes.op[step.inside[nodes.op]], made[made >= 0])
    )
    unused = makes[~np.isin(makes, used)]
    once, again = _layers_of(step, used), _layers_of(step, unused)
    passes = min((again[kind] // count for kind, count in once.items()), default=0)
    if passes and len(once) >= 2:  # kinds of layers that tell a model
        order = "reuse the outputs of the training pass, or run this under torch.no_grad()"
        more = plural(passes, "more forward pass", "more forward passes")
        why, ops = f"{more} per step that no backward pass uses", unused.tolist()
        risk = "the weights may have changed between the passes"
        yield step.proposal(order, why, ops, UNUSED_SHARES, risk, step.together(ops, LONG_NS))


def _layers_of(step: Step, ops: Ints) -> Counter[tuple[str, str]]:
    calls = (step.call(op) for op in ops.tolist() if step.name(op) in LAYERS)
    return Counter((call.name, str(call.dims)) for call in calls if call.dims)
