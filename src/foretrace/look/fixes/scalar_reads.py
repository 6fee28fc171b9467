"""Read numbers of the GPU every N steps only.

What it looks for: `.item()`, `float(tensor)`, `if tensor:`, `print(tensor)` and `.tolist()` of
values on the GPU: a copy of a few bytes to the host, and a wait for all work before it.

On a CPU nothing waits, but a loop that reads elements one by one costs microseconds for each.

What must hold: the call waited. Reads that another op makes, those of a GradScaler (after its check
for infinity) and those of autograd's anomaly mode have causes of their own and do not count. On a
CPU at least 64 reads follow each other, with nothing between two of them but views, ops on one
element, or short ops of which the last is a reduction. Text of tensors is `printed_tensors`'s.

What changes: the reads go with their waits. In one of N steps they remain. On a CPU the loop goes,
and part of it remains as Python code over a list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from foretrace.base.units import plural
from foretrace.look.fixes._cpu import CpuStep, elements
from foretrace.look.fixes._host import copies, tops, waited
from foretrace.look.fixes._step import Proposal, Proposals, Step, fix, shown
from foretrace.look.fixes.printed_tensors import printed
from foretrace.look.fixes.reduce_on_gpu import OPS as REDUCTIONS
from foretrace.work.families import role_of_op

READS = ("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero")
COPIES = ("aten::to", "aten::_to_copy", "aten::copy_")
SMALL = 4096  # bytes of a copy that a program reads as numbers
SCALER = "aten::_amp_foreach_non_finite_check_and_unscale_"
INSIDE = ("aten::", "autograd::engine::evaluate_function")

LISTED = "aten::resolve_neg"  # the last op of .tolist()
MANY = 64  # reads of a loop on a CPU; fewer take microseconds
TINY_NS, NEAR_NS = 100_000, 200_000  # an op of such a loop, and Python between two reads
ON_CPU = (0.8, 0.95, 0.5)  # of the loop's time goes
Round = tuple[int, list[int]]  # a read, and the ops before it that compute


def _on_cpu(step: CpuStep) -> Proposals:
    found: list[list[Round]] = [[]]
    for read, ops in _rounds(step):
        if _is_little(step, ops):
            found[-1].append((read, ops))
        else:
            found.append([(read, [])])
    for rounds in [loop for loop in found if len(loop) >= MANY]:
        reduced = Counter(step.bare(ops[-1]) for _, ops in rounds if _reduces(step, ops))
        order = "use tensor ops instead of this loop, and read their result once"
        calls = ".tolist()" if step.name(rounds[-1][0]) == LISTED else ".item(), float(), if"
        why = f"{plural(len(rounds), 'read')} of numbers per step, one by one ({calls})"
        if 2 * sum(reduced.values()) >= len(rounds):
            names = ", ".join(name for name, _ in reduced.most_common(2))
            order = "compute and read these numbers every N steps"
            why = f"{plural(len(rounds), 'number')} per step computed and read alone ({names})"
        events = [op for read, ops in rounds for op in (*ops, read)]
        stretches = step.together(events, NEAR_NS)
        yield step.proposal(order, why, events, ON_CPU, stretches=stretches)


def _rounds(step: CpuStep) -> Iterator[Round]:
    """Each read of a number that does not become text, with the computing ops before it."""
    text, ops = {*printed(step)}, list[int]()
    computing = {*step.callers(step.computing).tolist()} | text
    for op in tops(step).tolist():
        if step.name(op) in (*READS, LISTED) and op not in text:
            yield op, ops
            ops = []
        elif op in computing:
            ops.append(op)


def _is_little(step: CpuStep, ops: list[int]) -> bool:
    """Whether these ops are short, and take one element each or make one number together."""
    calls = [step.call(op) for op in ops if step.trace.host.length[op] < TINY_NS]
    alone = all(call.dims and elements(call) <= 1 for call in calls)
    return len(calls) == len(ops) and (alone or _reduces(step, ops))


def _reduces(step: CpuStep, ops: list[int]) -> bool:
    """Whether the last of these ops makes one number of many, and those before it are pointwise."""
    before = all(role_of_op(step.name(op)) == "pointwise" for op in ops[:-1])
    return bool(ops) and step.name(ops[-1]) in REDUCTIONS and before


@fix("Read numbers of the GPU every N steps only", "gpu", on_cpu=_on_cpu)
def _find(step: Step) -> Proposals:
    host, found = step.trace.host, waited(step, step.ops(*READS, *COPIES))
    inner = host.named(lambda name: name.startswith(INSIDE))
    own = found[host.nearest(host.parent[found].astype(np.int64), inner) < 0]
    # a copy of a few bytes to the host
    sizes = [step.trace.gpu.bytes[copies(step, [event], "DtoH")] for event in own.tolist()]
    kept = own[[len(each) > 0 and int(each.max()) <= SMALL for each in sizes]]
    # the first one after each check of a GradScaler is the scaler's
    checks = np.sort(host.start[step.ops(SCALER)])
    after = kept[host.start[kept] > checks[-1]] if len(checks) else kept[:0]
    reads = kept[~np.isin(kept, after[:1])]
    if not len(reads):
        return
    order = "keep it on the GPU (.detach()), read it every N steps"
    if step.compiled:
        order = "take print and .item() out of the compiled code"
    names = {step.name(event) for event in reads.tolist()}
    words = [".item()"] * bool(names & {*READS})
    words += ["small copies to the host (.cpu(), .tolist())"] * bool(names & {*COPIES})
    why = f"{plural(len(reads), 'wait')} per step for {' and '.join(words)}"
    yield Proposal(order, why, step.without(reads), events=shown(reads))
