"""Make a tensor where it is used, not on the CPU.

What it looks for: ops that make a tensor on the CPU (`arange`, `zeros`, `randn`, and what is
computed from it), and right after them its copy to the GPU: position tables, masks, noise.

What must hold: the chain begins with an op that makes numbers of nothing, none of its ops launches
anything, and the copy is of the shape that the last one has. A copy without such ops before it is
data from elsewhere.

What changes: the copy goes with its wait, and so does the CPU's work. Values that differ each time
(random numbers, or a chain that runs once per step) are then made on the GPU, with a launch for
each op of the chain. A table that is made several times per step is made once, before the loop.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._copies import GAP_NS, host_copies
from foretrace.analyze.fixes._host import share, tops
from foretrace.analyze.fixes._step import Step
from foretrace.base.arrays import Ints
from foretrace.base.units import bytes_text, plural
from foretrace.model.replay import GraphChange

_RANDOM = "rand randn randint randperm rand_like randn_like randint_like normal bernoulli"
_FILLED = "arange linspace logspace zeros ones full eye zeros_like ones_like full_like tril triu"
RANDOM = frozenset(f"aten::{name}" for name in _RANDOM.split())
FACTORIES = RANDOM | frozenset(f"aten::{name}" for name in _FILLED.split())
LONGEST = 24  # ops in a chain
REPEATED = 3
LEAST = 4_096  # bytes


class Chain(Struct, frozen=True):
    """Ops of the host that make a tensor, its copy last, from the end of the op before them to the
    start of the one behind; the memcpy, and the tensor's shape.
    """

    ops: list[int]
    stretch: tuple[int, int]
    row: int
    key: tuple[tuple[int, ...], str]


def _find(step: Step) -> Iterator[Proposal]:
    chains = _chains(step)
    if not chains:
        return
    names = {step.name(op) for chain in chains for op in chain.ops}
    keys = [chain.key for chain in chains]
    repeated = min(map(keys.count, keys)) >= REPEATED and not names & RANDOM
    rows = np.array([chain.row for chain in chains], np.int64)
    size = bytes_text(int(np.median(step.trace.gpu.bytes[rows])))
    how = "once on the GPU and keep it" if repeated else 'on the GPU: device="cuda"'
    launched = 0 if repeated else sum(len(chain.ops) - 1 for chain in chains)
    yield Proposal(
        f"make this tensor {how}",
        f"{plural(len(chains), 'tensor')} of {size} made on the CPU and copied per step",
        _change(step, chains, launched, repeated),
        worst=_change(step, chains, 3 * launched, repeated),
        risk="holds where the values are the same each time" if repeated else "",
        events=step.events(rows),
    )


def _chains(step: Step) -> list[Chain]:
    """Every tensor of the step that the host makes of nothing and copies."""
    ops = tops(step)
    calling, place = _calling(step), {op: at for at, op in enumerate(ops.tolist())}
    found, before = list[Chain](), -1  # where the chain before ended
    for copy in host_copies(step, "HtoD", LEAST):
        at = place.get(copy.op, -1)
        if at < 0:
            continue
        first = at
        while first > max(at - LONGEST, before + 1) and int(ops[first - 1]) not in calling:
            first -= 1
        made = [each for each in range(first, at) if step.name(int(ops[each])) in FACTORIES]
        follows = bool(found) and first == before + 1 and found[-1].key == copy.key
        if made or follows:
            first, before = made[0] if made else first, at
            mine = ops[first : at + 1].tolist()
            found.append(Chain(mine, _around(step, ops, first, at), copy.row, copy.key))
    return [chain for chain in found if len(chain.ops) > 1]


def _around(step: Step, ops: Ints, first: int, last: int) -> tuple[int, int]:
    """The host time of these ops, with the Python code on both sides."""
    host = step.trace.host
    begin, end = int(host.start[ops[first]]), int(host.end[ops[last]])
    before = int(host.end[ops[first - 1]]) if first else begin
    behind = int(host.start[ops[last + 1]]) if last + 1 < len(ops) else end
    return max(before, begin - GAP_NS), min(behind, end + GAP_NS)


def _calling(step: Step) -> set[int]:
    """The outermost ops that call the runtime of the GPU."""
    return set(step.callers(step.graph.calls).tolist())


def _change(step: Step, chains: list[Chain], launched: int, repeated: bool) -> GraphChange:
    """The step without these chains, and with so many more launches."""
    removed = tuple(chain.stretch for chain in chains)
    calls = step.calls_below(np.array([chain.ops[-1] for chain in chains], np.int64))
    rows = [chain.row for chain in chains]
    if repeated:
        return GraphChange(removed, gone=frozenset(rows), unwaited=frozenset(calls.tolist()))
    sizes = {row: step.move_ns(float(step.trace.gpu.bytes[row])) + 2_000 for row in rows}
    left = share(step, removed, launched * step.plain_ns)
    return GraphChange(removed, left, sizes, unwaited=frozenset(calls.tolist()))


FIX = Fix("made_on_host", "Make tensors on the GPU", _find, ("gpu", "shapes"))
