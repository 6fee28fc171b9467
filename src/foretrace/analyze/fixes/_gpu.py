"""What GPU work takes after a fix, from the roofs of its card, and changes made of such times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from foretrace.analyze.fixes._step import Step
from foretrace.model.costs import peak_flops
from foretrace.model.intervals import Ints
from foretrace.model.order import Case
from foretrace.model.replay import GraphChange

# What a kernel takes beside its arithmetic and its traffic.
STARTING_NS = 2_000
# The Python code before an op of a group that becomes one.
GAP_NS = 30_000
ATEN = "aten::"


class Speed(Struct, frozen=True):
    """Shares of a card's peak that kernels reach: matmuls, convolutions, attention and memory."""

    matmul: float
    conv: float
    attention: float
    backward: float
    memory: float


# An H200's (torch 2.11, bf16; of the datasheet's peak); the arithmetic of attention is that of the
# scores that its mask leaves.
USUAL = Speed(0.75, 0.6, 0.36, 0.24, 0.75)
BEST = Speed(0.85, 0.75, 0.5, 0.35, 0.95)
WORST = Speed(0.55, 0.4, 0.25, 0.15, 0.5)
SPEEDS = (USUAL, BEST, WORST)

Changes = tuple[GraphChange, GraphChange, GraphChange]
Price = Callable[[Case, Speed], float | None]


class NewKernel(Struct, frozen=True):
    """A row whose new time depends on the speed: no longer than `most`, what it replaces."""

    row: int
    most: float
    price: Callable[[Speed], float]


def with_kernels(base: GraphChange, kernels: Sequence[NewKernel], speed: Speed) -> GraphChange:
    """A change with the times of its new kernels."""
    length = {each.row: min(each.price(speed), each.most) for each in kernels}
    return replace(base, length=base.length | length)


def at_speeds(make: Callable[[Speed], GraphChange]) -> Changes:
    """A change as it usually is, at best and at worst."""
    return make(USUAL), make(BEST), make(WORST)


def memory_ns(step: Step, speed: Speed, count: float) -> float:
    """A kernel that moves these bytes."""
    return STARTING_NS + step.move_ns(count) / speed.memory


def arithmetic_ns(
    step: Step, share: float, flops: float, kind: str = "bf16", matrix: bool = True
) -> float:
    """This arithmetic at a share of the peak; infinite where the peak is not known."""
    top = peak_flops(step.device, kind, matrix)
    return flops / (top * share) * 1e9 if top else float("inf")


def matmul_ns(
    step: Step, speed: Speed, flops: float, count: float, kind: str = "bf16", matrix: bool = True
) -> float:
    """A matmul of this arithmetic that moves these bytes."""
    work = STARTING_NS + arithmetic_ns(step, speed.matmul, flops, kind, matrix)
    return max(work, memory_ns(step, speed, count))


def attention_ns(step: Step, speed: Speed, flops: float, backward: bool) -> float:
    """A fused kernel for 16-bit attention; in the backward pass with the small ones around it."""
    share = speed.backward if backward else speed.attention
    return STARTING_NS + arithmetic_ns(step, share, flops)


def conv_ns(
    step: Step, speed: Speed, flops: float, count: float, kind: str = "bf16", matrix: bool = True
) -> float:
    """A convolution in NCHW: cuDNN changes the layout of its inputs and its result around it."""
    work = STARTING_NS + arithmetic_ns(step, speed.conv, flops, kind, matrix)
    return work + memory_ns(step, speed, 2 * count)


def repriced(step: Step, rows: Iterable[int], price: Price) -> Changes:
    """New times of these rows: usual, best and worst; none is longer than it was."""
    lengths: list[dict[int, float]] = [{}, {}, {}]
    for row in rows:
        case = step.case(row)
        for speed, length in zip(SPEEDS, lengths, strict=True):
            ns = price(case, speed) if case else None
            if ns is not None:
                length[row] = min(ns, float(step.trace.gpu.length[row]))
    usual, best, worst = (GraphChange(length=length) for length in lengths)
    return usual, best, worst


def one_for_many(
    step: Step, events: Ints, rows: Ints, ns: float, kept: tuple[int, ...] = (0,)
) -> GraphChange:
    """One kernel of this time instead of these events; the host time of those at `kept` stays."""
    places = {at % len(events) for at in kept}
    gone = np.array([each for at, each in enumerate(events.tolist()) if at not in places], np.int64)
    unwaited = frozenset(step.calls_below(gone).tolist())
    host = GraphChange(removed=step.with_gaps(gone, GAP_NS), unwaited=unwaited)
    return joined([host, one_kernel(step, rows, ns)]) if len(rows) else host


def one_kernel(step: Step, rows: Ints, ns: float) -> GraphChange:
    """Of these rows the first remains, with this time but no longer than all of them."""
    length = {int(rows[0]): min(ns, step.ns(rows))}
    return GraphChange(length=length, gone=frozenset(rows[1:].tolist()))


def joined(changes: Iterable[GraphChange], left: float = 0.0) -> GraphChange:
    """Changes of different parts of a step as one."""
    every = list(changes)
    length: dict[int, float] = {}
    for each in every:
        length |= each.length
    removed = tuple(stretch for each in every for stretch in each.removed)
    gone = frozenset[int]().union(*(each.gone for each in every))
    unwaited = frozenset[int]().union(*(each.unwaited for each in every))
    return GraphChange(removed, left, length, gone, unwaited)


def aten_above(step: Step, events: Ints) -> Ints:
    """The outermost op of PyTorch around each event, within its backward node if it has one."""
    return step.topmost(events, step.trace.host.named(lambda name: name.startswith(ATEN)))


def owners(step: Step, rows: Ints) -> Ints:
    """The outermost ops of PyTorch that launched these rows, in order of time, each once."""
    host = step.trace.host
    found = np.unique(aten_above(step, step.trace.gpu.launch[rows]))
    found = found[found >= 0]
    return found[np.argsort(host.start[found], kind="stable")]


def rows_where(step: Step, test: Callable[[Case], bool]) -> Ints:
    """Kernels of the step whose case passes; each case is tested once."""
    passed: dict[int, bool] = {}
    kept = []
    for row in step.rows.tolist():
        case = step.case(row)
        if case is None:
            continue
        if case.number not in passed:
            passed[case.number] = test(case)
        if passed[case.number]:
            kept.append(row)
    return np.array(kept, np.int64)


def total(step: Step, rows: Sequence[int] | Ints, amount: Callable[[Case], float | None]) -> float:
    """The sum of an amount over these rows."""
    return float(sum((amount(case) or 0) for row in rows if (case := step.case(int(row)))))
