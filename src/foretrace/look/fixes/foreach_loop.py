"""Update all parameters in one call, not one by one.

What it looks for: a loop of pointwise ops or norms over tensors of different shapes, as an average
of the weights, clipping or a hand-written optimizer makes: the same ops again and again, with
nothing launched between them.

What must hold: an op of the loop writes in place or is a norm. None is in the step of one of
PyTorch's optimizers, which have `fused=True`, or in the backward pass. The shapes are recorded, and
there are several.

What changes: `torch._foreach_...` launches a kernel for some thirty tensors, which moves the same
bytes. On the host a tensor costs 1 us in it, not a call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from foretrace.base.units import plural
from foretrace.look.fixes._step import GraphChange, Ints, Proposal, Proposals, Step, fix
from foretrace.look.fixes.batched_loop import repeats
from foretrace.look.rules._seen import bare
from foretrace.look.rules.unfused_optimizer import COMPILE, HAVE_FUSED
from foretrace.trace import replay
from foretrace.trace.autograd import ENGINE, STEP

NORMS = frozenset({"linalg_vector_norm", "norm"})
_POINTWISE = """
add mul sub div lerp copy zero clamp clamp_min addcmul addcdiv sqrt rsqrt pow neg sign abs square
reciprocal maximum minimum fill clone zeros_like sum to detach
"""
OPS = NORMS | frozenset(f"{name}{end}" for name in _POINTWISE.split() for end in ("", "_"))
LONGEST = 24  # ops for one tensor
MANY, SHAPES = 32, 3
KERNEL_NS = 2_000
NAMED = 4


@fix("Update all parameters in one call", "gpu shapes")
def _find(step: Step) -> Proposals:
    for run in map(np.array, _runs(step)):
        loop = _repeating(step, run) if len(run) >= MANY else run[:0]
        dims = {str(call.dims[0]) for at in loop.tolist() if (call := step.call(at)).dims}
        names = {bare(step.name(at)) for at in loop.tolist()}
        writes = names & NORMS or any(name.endswith("_") for name in names)
        if len(loop) >= MANY and len(dims) >= SHAPES and writes:
            yield _proposal(step, loop)


def _repeating(step: Step, run: Ints) -> Ints:
    """The longest part of a run in which the same names repeat."""
    names = [bare(step.name(at)) for at in run.tolist()]
    codes = np.array([names.index(name) for name in names], np.int64)
    found = [each for length in range(1, LONGEST + 1) for each in repeats(codes, length)]
    start, size = max(found, key=lambda each: each[1], default=(0, 0))
    part: Ints = run[start : start + size]
    return part


def _runs(step: Step) -> Iterator[list[int]]:
    """Ops of these names that follow each other, with nothing launched between."""
    host, run = step.trace.host, list[int]()
    # below the step of one of PyTorch's optimizers, or a node of the backward pass
    own = (*(f"{STEP}{kind}." for kind in HAVE_FUSED | COMPILE), ENGINE)
    elsewhere = host.nearest(np.arange(host.count), host.named(lambda name: name.startswith(own)))
    above = host.nearest_op(step.trace.gpu.launch[step.rows])
    launching = set(step.callers(above[above >= 0]).tolist())
    for event in step.outermost(step.inside & host.is_op).tolist():
        if event in launching and bare(step.name(event)) in OPS and elsewhere[event] < 0:
            run.append(event)
        elif event in launching:
            yield run
            run = []
    yield run


def _proposal(step: Step, run: Ints) -> Proposal:
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
    why = f"{plural(len(run), 'call')} of {', '.join(list(names)[:NAMED])} on one tensor each"
    return Proposal(_order({*names}), why, change, worst=worst, events=step.events(rows))


def _order(names: set[str]) -> str:
    """What to call: by the ops that only one kind of loop has."""
    if "sqrt" in names and any(name.startswith(("addcdiv", "div")) for name in names):
        return "torch.optim.AdamW(..., fused=True), not a loop of ops"
    if names & NORMS and len(names) > 1:
        return "torch.nn.utils.clip_grad_norm_, not a loop of norms"
    if len(names) > 1:
        return "torch._foreach_lerp_ or other _foreach_ ops, not a loop"
    name = next(iter(names))
    return f"torch._foreach_{name.removeprefix('linalg_vector_')} over all tensors, not a loop"
