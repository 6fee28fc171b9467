"""Make a tensor on the GPU, where it is used.

What it looks for: tensors that the host makes in a step and copies to the GPU: with ops that make
numbers of nothing (`arange`, `zeros`, `randn`) and what is computed from them, as position tables,
masks and noise are; or several small ones of one size (`torch.tensor(list)`).

What must hold: the copy comes from pageable memory or waits, and the ops before it launch nothing.
A tensor that no such op begins must be of at most 64 kB, and there are three of its size: other
copies are data. So is what a DataLoader makes, random crops included.

What changes: the copies go, with their waits, and so do the ops that make the tensor on the host,
with the Python around them. What is made three times or more is made once, before the loop. Random
numbers and what is made once per step are then made on the GPU: one launch for each op.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from foretrace.base.arrays import distinct
from foretrace.base.units import bytes_text, plural
from foretrace.look.fixes._host import LOADER, copies, share, tops, waited
from foretrace.look.fixes._step import GAP_NS, GraphChange, Ints, Proposal, Proposals, Step, fix

REPEATED = 3
_RANDOM = "rand randn randint randperm rand_like randn_like randint_like normal bernoulli"
_FILLED = "arange linspace logspace zeros ones full eye zeros_like ones_like full_like"
_MAKING = "empty lift_fresh detach_ detach to _to_copy fill_ scalar_tensor arange from_numpy alias"
RANDOM, FILLED, MAKING = (
    frozenset(f"aten::{name}" for name in names.split()) for names in (_RANDOM, _FILLED, _MAKING)
)
BEHIND = frozenset({"aten::lift_fresh", "aten::detach_", "detach_"})  # a copy, in torch.tensor

ONCE, HERE = "make this tensor once on the GPU, before the loop", 'make it with device="cuda"'


class HostTensor(Struct, frozen=True):
    """The ops that make a tensor, its copy last, from where the host begins to make it to the next
    op; the memcpy, and whether its values come from ops.
    """

    ops: list[int]
    stretch: tuple[int, int]
    row: int
    computed: bool


@fix("Make tensors on the GPU", "gpu")
def _find(step: Step) -> Proposals:
    found, sizes = list(_made(step)), step.trace.gpu.bytes
    often = {size: sum(sizes[each.row] == size for each in found) for size in sizes[step.rows]}
    found = [
        each
        for each in found
        if each.computed or (sizes[each.row] <= 65_536 and often[sizes[each.row]] >= REPEATED)
    ]
    if found:
        names = {step.name(op) for each in found for op in each.ops}
        once = all(often[sizes[each.row]] >= REPEATED for each in found) and not names & RANDOM
        yield _proposal(step, found, once)


def _proposal(step: Step, found: list[HostTensor], once: bool) -> Proposal:
    rows = np.array([each.row for each in found], np.int64)
    calls = step.calls_below(np.array([each.ops[-1] for each in found], np.int64))
    waits = len(np.intersect1d(calls, step.waiting))
    size = bytes_text(int(np.median(step.trace.gpu.bytes[rows])))
    waiting = f", {plural(waits, 'wait')}" if waits else ""
    launches = 0 if once else sum(max(len(each.ops) - 1, 1) for each in found)
    change, worst = (_change(step, found, times * launches, calls) for times in (1, 3))
    order, risk = (ONCE, "holds where the values are the same each time") if once else (HERE, "")
    why = f"{plural(len(found), 'copy', 'copies')} of {size} from the host per step{waiting}"
    return Proposal(order, why, change, worst=worst, risk=risk, events=step.events(rows))


def _made(step: Step) -> Iterator[HostTensor]:
    """Every tensor that the host makes and copies, with a wait or from pageable memory."""
    ops, gpu = tops(step), step.trace.gpu
    names, place = [step.name(op) for op in ops.tolist()], {op: at for at, op in enumerate(ops)}
    loaded = step.trace.host.nearest(ops, step.trace.host.named(LOADER.fullmatch)) >= 0
    calling, before = set(step.callers(step.graph.calls).tolist()), -1
    computed = False
    launch = step.trace.gpu.launch
    rows, pageable = (copies(step, tops(step), way) for way in ("HtoD", "Pageable"))
    rows = rows[step.trace.gpu.bytes[rows] >= 0]
    plain = waited(step, distinct(step.makers(launch[rows])))
    slow: Ints = rows[np.isin(rows, pageable) | np.isin(step.makers(launch[rows]), plain)]
    for row in slow.tolist():
        at = place.get(int(step.callers(gpu.launch[[row]])[0]), -1)
        if at <= before:
            continue
        reach = range(max(at - 24, before + 1), at)  # ops that make one tensor
        quiet = next((each + 1 for each in reversed(reach) if ops[each] in calling), reach.start)
        made = [
            each for each in range(quiet, at) if names[each] in RANDOM | FILLED and not loaded[each]
        ]
        computed = bool(made) or (computed and before >= 0 and quiet == before + 1)
        first = made[0] if made else quiet if computed else at
        while not computed and first > quiet and names[first - 1] in MAKING:
            first -= 1
        yield HostTensor(ops[first : at + 1].tolist(), _around(step, ops, first, at), row, computed)
        before = at


def _around(step: Step, ops: Ints, first: int, last: int) -> tuple[int, int]:
    """The host time of these ops, with the Python code on both sides."""
    host = step.trace.host
    while last + 1 < len(ops) and step.name(int(ops[last + 1])) in BEHIND:
        last += 1
    begin = int(host.end[ops[first - 1]]) if first else step.span.start_ns
    end = int(host.end[ops[last]])
    behind = int(host.start[ops[last + 1]]) if last + 1 < len(ops) else end
    return max(begin, step.span.start_ns), min(behind, end + GAP_NS)


def _change(step: Step, found: list[HostTensor], launches: int, calls: Ints) -> GraphChange:
    """The step without these tensors, or with so many launches that make them."""
    removed, rows = tuple(each.stretch for each in found), [each.row for each in found]
    if not launches:
        return GraphChange(removed, gone=frozenset(rows), unwaited=frozenset(calls.tolist()))
    length = {row: step.move_ns(float(step.trace.gpu.bytes[row])) + 2_000 for row in rows}
    left = share(step, removed, launches * step.plain_ns)
    return GraphChange(removed, left, length, unwaited=frozenset(calls.tolist()))
