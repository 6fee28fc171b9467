"""Compile the model.

What it looks for: eager steps with kernels that TorchInductor makes one of (see the finding
`fusable_pointwise`), or with a host that issues many small ops.

What must hold: no compiled code and no CUDA graph in the trace. A wait of the host splits the
compiled code, and each part costs a call of its own; with many waits the fix says that these go
first.

What changes: each group of kernels becomes one for each of its reductions, which moves what goes in
and out at 75% of the bandwidth, at least 2 us. Half of that gain counts where there is a reduction,
or a backward pass that needs what lies between; at best all of it, at worst a quarter. The host
keeps 50 us for a compiled call and 28 us for each kernel that is left, with a backward pass 500 us
and 40 us, or as much as an eager launch takes (an H200's host, torch 2.11: 155 us with 4 kernels,
1.25 ms with 48; 1.35 ms with 19 and a backward pass, 2.40 ms with 42). The optimizer, the
DataLoader and long stretches of Python stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np
from msgspec import Struct

from foretrace.base.units import count_text
from foretrace.look.fixes._changes import Stretches, of_each
from foretrace.look.fixes._host import issuing, optimizing, share, waits_text
from foretrace.look.fixes._step import Case, GraphChange, Ints, Proposal, Proposals, Step, fix
from foretrace.look.rules._seen import traffic_of
from foretrace.look.rules.compile_triage import COMPILED_CALL_NS
from foretrace.look.rules.fusable_pointwise import MATMULS, REACH, chains
from foretrace.read.compiler import rows as compiled
from foretrace.trace.arguments import made, operands

# Of a call, and of a kernel in it: without and with a backward pass.
CALL_NS, KERNEL_NS = (50_000, 500_000), (28_000, 40_000)
REALISED = (0.5, 1.0, 0.25)  # as expected, at best, at worst
REDUCTIONS = frozenset({"reduction", "scan", "normalization", "softmax"})
MEMORY, SHORTEST_NS = 0.75, 2_000.0
INPUTS = 2  # tensors of one size from outside, if several are read and no matmul made them
FEW = 3
MANY = 32  # calls of one op
DISPATCH_NS = 3_000_000  # an op takes the host 5 to 200 us; one that takes this long does more
PART = 50  # launches: compiled code between two waits that has fewer is not worth its call


class Merged(Struct, frozen=True):
    """Rows of kernels that become `kept` kernels, what these move, and their time."""

    rows: Ints
    kept: int
    moved: float
    fused_ns: float


@fix("Compile the model", "gpu shapes", made=lambda step: step.compiled, general=True)
def _find(step: Step) -> Proposals:
    host, calls = step.trace.host, step.graph.calls
    launches = int(host.is_launch[calls].sum())
    if launches < FEW or host.is_graph_launch[calls].any() or any(map(compiled.is_row, host.names)):
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
        *of_each(partial(_change, step, groups, issued), REALISED),
        first=waits_text(step) if waits * PART > launches else "",
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
        outside[size] = outside[size] or INPUTS
    passes = kept * max(case.bytes or 0 for case in cases) if kept > 1 else 0
    moved = max(traffic_of(cases, outside).least, passes)
    return kept, moved, max(step.move_ns(moved) / MEMORY, kept * SHORTEST_NS)


def _cases(step: Step, places: Ints) -> list[Case]:
    order = step.trace.order
    return [order.cases[number] for number in order.case[places].tolist()]


def _change(
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
    stays = (count >= MANY) | (host.end[makers] - host.start[makers] > DISPATCH_NS)
    return step.stretches(makers[stays].tolist())
