"""What every fix needs: how it is declared, the step that it looks at, and the changes it makes.

A step has its ops, the GPU work below them, its waits and its graph, and says what GPU work would
take from the roofs of its card. Changes are given at several speeds of new kernels.

What the host does in a step: where it issues work, loads data, copies, or runs Python alone.

A CPU that computes does one thing after another, so the graph of its step is host time alone.
bfloat16 is not proposed to it: most CPUs have no units for it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, wraps
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.arrays import distinct
from foretrace.base.patterns import regex
from foretrace.base.units import plural
from foretrace.look.documents import Finding
from foretrace.read.compiler.records import is_row
from foretrace.trace import replay
from foretrace.trace.cpu_ops import bare, computing_ops
from foretrace.trace.intervals import Bools, IntervalUnion, Ints, split_by
from foretrace.trace.metadata import device_of
from foretrace.trace.module_calls import ENGINE, AutogradNodes
from foretrace.trace.recording import op_call
from foretrace.trace.replay import (
    COST,
    GraphChange,
    ProfilerCost,
    ReplayGraph,
    run,
    without_profiler,
)
from foretrace.trace.spans import Span
from foretrace.trace.trace import Trace
from foretrace.work.costs import OpCall, Tensor, peak_flops
from foretrace.work.costs.limits import memory_rate
from foretrace.work.kernel_row import KernelRow

Stretches = tuple[tuple[int, int], ...]
Changes = tuple[GraphChange, GraphChange, GraphChange]  # as usual, at best, at worst
T = TypeVar("T")
NewTimes = dict[int, "Callable[[Speed], float]"]  # of rows whose kernels change


class Proposal(Struct, frozen=True):
    """A change that a user can make to the program.

    `order` is what to do, `why` what was seen. `change` is the expected change of the graph, `best`
    and `worst` are its limits where the new times are not certain. `first` says what must go before
    this can be done; `risk` what the user must check (types, results).
    """

    order: str
    why: str
    change: GraphChange
    best: GraphChange | None = None
    worst: GraphChange | None = None
    first: str = ""
    risk: str = ""
    events: tuple[int, ...] = ()


Proposals = Iterator[Proposal]
EVENTS = 50  # of a proposal: enough to jump to


def shown(events: Sequence[int] | Ints) -> tuple[int, ...]:
    """The first of these events."""
    return tuple(np.asarray(events[:EVENTS], np.int64).tolist())


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
STARTING_NS = 2_000  # what a kernel takes beside its arithmetic and its traffic


def of_each(make: Callable[[T], GraphChange], values: tuple[T, T, T]) -> Changes:
    """A change as it usually is, at best and at worst, by what differs."""
    usual, best, worst = values
    return make(usual), make(best), make(worst)


def at_speeds(make: Callable[[Speed], GraphChange]) -> Changes:
    """A change at the speeds of new kernels."""
    return of_each(make, SPEEDS)


def replacing(parts: Sequence[tuple[GraphChange, NewTimes]]) -> Changes:
    """What goes of parts of a step, and the times of the new kernels instead."""
    base = joined(change for change, _ in parts)
    times = [each for _, new in parts for each in new.items()]
    return at_speeds(
        lambda speed: replace(base, length=base.length | {row: time(speed) for row, time in times})
    )


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


def both(first: GraphChange, then: GraphChange) -> GraphChange:
    """Two changes at once; where both change a time, the shorter one counts."""
    length = dict(first.length)
    for row, ns in then.length.items():
        length[row] = min(ns, length.get(row, ns))
    return GraphChange(
        first.removed,
        first.left,
        length,
        first.gone | then.gone,
        first.unwaited | then.unwaited,
        (*first.also, (then.removed, then.left), *then.also),
        first.moved | then.moved,
    )


Events = Sequence[int] | Ints  # ids of host events
GAP_NS = 20_000  # at most: the Python code that calls an op
PLAIN_NS = 20_000  # of a pointwise op on a host that nothing is known of
GROUP_GAP_NS = 30_000  # the Python code before an op of a group that becomes one
ATEN = "aten::"


class Step:
    """One typical step. Events are ids of host events, rows are rows of `trace.gpu`."""

    on_cpu = False  # whether a CPU computes

    def __init__(
        self,
        trace: Trace,
        graph: ReplayGraph,
        repeats: int = 1,
        findings: Sequence[Finding] | None = None,
    ) -> None:
        """`repeats` is the number of steps like this, `findings` what the rules say, if known."""
        self.trace, self.graph, self.span = trace, graph, graph.span
        self.repeats, self.findings = repeats, findings
        self.rows: Ints = graph.rows
        self.device = device_of(trace.about)

    @cached_property
    def inside(self) -> Bools:
        """Which host events began in the step."""
        host, span = self.trace.host, self.span
        return host.lasting & (host.start >= span.start_ns) & (host.start < span.end_ns)

    @cached_property
    def nodes(self) -> AutogradNodes:
        """Forward ops and the backward nodes that they made."""
        return AutogradNodes(self.trace)

    @cached_property
    def trains(self) -> bool:
        """Whether the step has a backward pass."""
        return bool(self.nodes.is_node[: len(self.inside)][self.inside].any())

    @cached_property
    def compiled(self) -> bool:
        """Whether the step ran compiled code."""
        return bool(self.trace.host.named(is_row)[self.inside].any())

    def ops(self, *names: str) -> Ints:
        """Ops of these names, in order of time; those inside another of them are left out."""
        return self.outermost(self.named(names))

    def named(self, names: Collection[str]) -> Bools:
        """Which host events of the step have one of these names."""
        found: Bools = self.trace.host.named(names.__contains__) & self.inside
        return found

    def outermost(self, chosen: Bools) -> Ints:
        """These events, without those below another of them, in order of time."""
        host = self.trace.host
        rows = np.flatnonzero(chosen)
        return self.in_order(rows[host.nearest(host.parent[rows].astype(np.int64), chosen) < 0])

    def in_order(self, events: Ints) -> Ints:
        """These host events in order of time."""
        return events[np.argsort(self.trace.host.start[events], kind="stable")]

    def name(self, event: int) -> str:
        """The name of a host event."""
        name: str = self.trace.host.names[self.trace.host.name[event]]
        return name

    def call(self, event: int) -> OpCall:
        """An op with its arguments; with none where they were not recorded."""
        return op_call(self.trace, event) or OpCall(self.name(event))

    def tensor(self, event: int, at: int = 0) -> Tensor | None:
        """A tensor argument of an op."""
        return self.call(event).tensor(at)

    def tensors(self, event: int) -> tuple[Tensor, ...]:
        """All tensor arguments of an op."""
        return self.call(event).every_tensor()

    def stretches(self, events: Iterable[int]) -> Stretches:
        """The host time of these events."""
        host = self.trace.host
        return tuple((int(host.start[at]), int(host.end[at])) for at in events)

    def marked(self, events: Events) -> Bools:
        """These events as a mask."""
        chosen = np.zeros(self.trace.host.count, bool)
        chosen[np.asarray(events, np.int64)] = True
        return chosen

    def under(self, inner: Ints, events: Events) -> Bools:
        """Which of these inner events are below one of `events`, or one of them."""
        found: Bools = self.trace.host.nearest(inner, self.marked(events)) >= 0
        return found

    def below(self, events: Events) -> Ints:
        """The GPU work that these events launched, themselves or through what they called."""
        return self.rows[self.under(self.trace.gpu.launch[self.rows], events)]

    def calls_below(self, events: Events) -> Ints:
        """The calls of the runtime that these events made."""
        return self.graph.calls[self.under(self.graph.calls, events)]

    def waits_below(self, events: Events) -> frozenset[int]:
        """Those of these calls that wait for the GPU."""
        calls = self.calls_below(events)
        return frozenset(calls[np.isin(calls, self.waiting)].tolist())

    def with_gaps(self, events: Ints, most: int = GAP_NS) -> Stretches:
        """The host time of these calls, each with that of the Python code before it."""
        host = self.trace.host
        known = np.flatnonzero(self.inside & (host.is_op | host.is_call))
        begin = np.maximum(host.start[events] - most, self.span.start_ns)
        of_track = {host.track[part[0]]: part for part in split_by(host.track[known], known)}
        for mine in split_by(host.track[events], np.arange(len(events))):
            ends = np.sort(host.end[of_track.get(host.track[events[mine[0]]], known[:0])])
            last = np.searchsorted(ends, host.start[events[mine]], side="right")
            begin[mine] = np.maximum(begin[mine], np.append(self.span.start_ns, ends)[last])
        return tuple(zip(begin.tolist(), host.end[events].tolist(), strict=True))

    def without(self, events: Ints, removed: Stretches | None = None) -> GraphChange:
        """The step without these events, their GPU work and waits, and the host time `removed`."""
        return GraphChange(
            self.stretches(events.tolist()) if removed is None else removed,
            gone=frozenset(self.below(events).tolist()),
            unwaited=frozenset(self.calls_below(events).tolist()),
        )

    def backward(self, events: Events) -> Ints:
        """The nodes of the backward pass that ops below these events made."""
        host, nodes = self.trace.host, self.nodes
        found = np.flatnonzero(nodes.is_node[: host.count] & self.inside)
        made = nodes.made_by(found)
        mine = (made >= 0) & self.under(np.maximum(made, 0), events)
        return self.outermost(self.marked(found[mine]))

    def ns(self, rows: Ints | list[int]) -> float:
        """The GPU time of these rows."""
        return float(self.trace.gpu.length[rows].sum())

    def added_ns(self, change: GraphChange) -> float:
        """The GPU time that a change adds; less than nothing where it saves some."""
        return sum(change.length.values()) - self.ns([*(change.gone | change.length.keys())])

    def events(self, rows: Sequence[int] | Ints) -> tuple[int, ...]:
        """Ids of the events of some GPU work."""
        return tuple(self.trace.gpu.id[[*shown(rows)]].tolist())

    @cached_property
    def _case(self) -> dict[int, int]:
        order = self.trace.order
        return dict(zip(order.row.tolist(), order.case.tolist(), strict=True))

    def case(self, row: int) -> KernelRow | None:
        """What is known of a kernel; None for a copy or a fill."""
        at = self._case.get(row)
        return None if at is None else self.trace.kernel_rows[at]

    @cached_property
    def waiting(self) -> Ints:
        """The calls that wait for the GPU."""
        return self.graph.calls[self.graph.waiting]

    def makers(self, calls: Ints) -> Ints:
        """The innermost op around each call, or -1."""
        return self.trace.host.nearest_op(calls)

    def callers(self, calls: Ints) -> Ints:
        """The outermost op around each event, or the event itself."""
        return self.topmost(calls, self.trace.host.is_op, calls)

    def topmost(self, events: Ints, chosen: Bools, none: Ints | int = -1) -> Ints:
        """The outermost chosen event around each of these, or `none`."""
        host, found, at = self.trace.host, np.broadcast_to(none, len(events)), events
        while ((at := host.nearest(at, chosen)) >= 0).any():
            found = np.where(at >= 0, at, found)
            at = np.where(at >= 0, host.parent[np.maximum(at, 0)], -1).astype(np.int64)
        return found

    def move_ns(self, count: float) -> float:
        """The time to move this many bytes through the GPU's memory."""
        return count / memory_rate(self.device) * 1e9 if self.device else 0.0

    def distinct_rows(self, parts: Iterable[Ints]) -> Ints:
        """Rows of all these, each once."""
        return distinct(np.concatenate([np.empty(0, np.int64), *parts]))

    @cached_property
    def outer(self) -> Ints:
        """The outermost ops of PyTorch, within their backward node if they have one, by time."""
        host = self.trace.host
        return self.outermost(self.inside & host.named(_is_aten))

    def near(self, event: int, before: int = 0, after: int = 0) -> list[int]:
        """The outermost ops of its thread around an outermost op, in order of time."""
        host = self.trace.host
        mine = self.outer[host.track[self.outer] == host.track[event]]
        at = int(np.searchsorted(host.start[mine], host.start[event]))
        found: list[int] = mine[max(at - before, 0) : at + after + 1].tolist()
        return [each for each in found if each != event]

    @cached_property
    def usual(self) -> ReplayGraph:
        """The graph with the host times that it has without the profiler."""
        return without_profiler(self.trace, self.graph, COST)

    def host_ns(self, stretches: Stretches) -> float:
        """The host time of these stretches without the profiler."""
        calls, rows = (frozenset(each.tolist()) for each in (self.graph.calls, self.rows))
        alone = GraphChange(gone=rows, unwaited=calls)  # with no GPU to wait for
        return run(self.usual, alone) - run(self.usual, replace(alone, removed=stretches))

    @cached_property
    def plain_ns(self) -> int:
        """The host time of an op that launches one kernel and does little else, as recorded: the
        quicker half of them counts.
        """
        host, makers = self.trace.host, self.makers(self.graph.calls)
        found, count = np.unique(makers[makers >= 0], return_counts=True)
        times = np.sort(host.length[found[(count == 1) & host.named(_is_aten)[found]]])
        return int(np.median(times[: (len(times) + 1) // 2])) if len(times) else PLAIN_NS

    @cached_property
    def cases(self) -> list[KernelRow]:
        """The kinds of kernels that the step has."""
        numbers = dict.fromkeys(self._case.get(row, -1) for row in self.rows.tolist())
        return [self.trace.kernel_rows[number] for number in numbers if number >= 0]

    def rows_where(self, test: Callable[[KernelRow], bool]) -> Ints:
        """Kernels of the step whose case passes; each case is tested once."""
        passed = {case.number for case in self.cases if test(case)}
        kept = [row for row in self.rows.tolist() if self._case.get(row) in passed]
        return np.array(kept, np.int64)

    def total(
        self, rows: Sequence[int] | Ints, amount: Callable[[KernelRow], float | None]
    ) -> float:
        """The sum of an amount over these rows."""
        return float(sum((amount(case) or 0) for row in rows if (case := self.case(int(row)))))

    def owner(self, rows: Ints) -> Ints:
        """The outermost op of PyTorch that launched each row, within its backward node, or -1."""
        return self.topmost(self.trace.gpu.launch[rows], self.trace.host.named(_is_aten))

    def owners(self, rows: Ints) -> Ints:
        """These ops in order of time, each once."""
        found = distinct(self.owner(rows))
        return self.in_order(found[found >= 0])

    def memory_ns(self, speed: Speed, count: float) -> float:
        """A kernel that moves these bytes."""
        return STARTING_NS + self.move_ns(count) / speed.memory

    def arithmetic_ns(
        self, share: float, flops: float, kind: str = "bf16", matrix: bool = True
    ) -> float:
        """This arithmetic at a share of the peak; infinite where the peak is not known."""
        top = peak_flops(self.device, kind, matrix)
        return flops / (top * share) * 1e9 if top else float("inf")

    def matmul_ns(
        self, speed: Speed, flops: float, count: float, kind: str = "bf16", matrix: bool = True
    ) -> float:
        """A matmul of this arithmetic that moves these bytes."""
        work = STARTING_NS + self.arithmetic_ns(speed.matmul, flops, kind, matrix)
        return max(work, self.memory_ns(speed, count))

    def attention_ns(self, speed: Speed, flops: float, backward: bool) -> float:
        """A fused kernel for 16-bit attention; in the backward pass with the small ones around."""
        share = speed.backward if backward else speed.attention
        return STARTING_NS + self.arithmetic_ns(share, flops)

    def repriced(self, rows: Ints, price: Callable[[KernelRow, Speed], float | None]) -> Changes:
        """New times of these rows: usual, best and worst; none is longer than it was."""
        cases = [(row, case) for row in rows.tolist() if (case := self.case(row))]
        now = self.trace.gpu.length

        def at(speed: Speed) -> GraphChange:
            priced = [(row, ns) for row, case in cases if (ns := price(case, speed)) is not None]
            return GraphChange(length={row: min(ns, float(now[row])) for row, ns in priced})

        return at_speeds(at)

    def shorter(self, rows: Iterable[int], share: float) -> GraphChange:
        """A share of the time of these rows remains."""
        length = self.trace.gpu.length
        return GraphChange(length={int(row): share * float(length[row]) for row in rows})

    def one_kernel(self, rows: Ints, ns: float) -> GraphChange:
        """Of these rows the first remains, with this time but no longer than all of them."""
        length = {int(rows[0]): min(ns, self.ns(rows))}
        return GraphChange(length=length, gone=frozenset(rows[1:].tolist()))

    def one_for_many(
        self, events: Ints, rows: Ints, ns: float, kept: tuple[int, ...] = (0,)
    ) -> GraphChange:
        """One kernel of this time instead of these events; the host time of some of them stays."""
        away = np.delete(events, kept)
        unwaited = frozenset(self.calls_below(away).tolist())
        host = GraphChange(removed=self.with_gaps(away, GROUP_GAP_NS), unwaited=unwaited)
        return joined([host, self.one_kernel(rows, ns)]) if len(rows) else host


def _is_aten(name: str) -> bool:
    return name.startswith(ATEN)


class Fix(Struct, frozen=True):
    """One kind of change; the docstring of `find` is the manual.

    `made` tells whether a step shows that the fix was made, where that takes more than the absence
    of its cause. A `general` fix treats the symptom whatever the cause is. `on_cpu` finds the cause
    in a step that a CPU computes, where that takes another look.
    """

    name: str
    title: str
    find: Callable[[Step], Iterable[Proposal]]
    needs: tuple[str, ...] = ()
    made: Callable[[Step], bool] | None = None
    general: bool = False
    on_cpu: Callable[[Any], Iterable[Proposal]] | None = None


def fix(
    title: str,
    needs: str = "",
    *,
    made: Callable[[Step], bool] | None = None,
    general: bool = False,
    on_cpu: Callable[[Any], Iterable[Proposal]] | None = None,
    steps: str = "gpu",
) -> Callable[[Callable[[Any], Iterable[Proposal]]], Fix]:
    """Declare a function as the fix of its name; its docstring is the manual. It looks at `steps`
    of a `gpu`, of a `cpu`, or `any`.
    """

    def declared(find: Callable[[Any], Iterable[Proposal]]) -> Fix:
        name = find.__name__.rstrip("_")  # `compile_`: a builtin has the name

        @wraps(find)
        def nothing(step: Any) -> Iterable[Proposal]:
            return ()

        for_gpu, for_cpu = nothing if steps == "cpu" else find, on_cpu if steps == "gpu" else find
        return Fix(name, title, for_gpu, tuple(needs.split()), made, general, for_cpu)

    return declared


LARGE = 1_000_000  # bytes: a copy of less is no work for the link
# What a link gives with pinned memory, in bytes per second: PCIe of the fourth and fifth generation
# (an H200's: 55 GB/s up and down). Only what is faster than the recorded copy counts.
LINK = 25e9
FAST_LINK = 55e9
FAST_CARDS = ("sm_90", "sm_10", "sm_12", "gfx94", "gfx95")
_MOVES = frozenset({"aten::to", "aten::_to_copy", "aten::copy_", "aten::cuda", "aten::cpu"})

LOADER = regex(r"enumerate\(DataLoader\)#.*")
OPTIMIZER = regex(r"Optimizer\.(step|zero_grad)#.*")
# Between two ops of a model Python takes less; longer is work of its own.
LONG_NS = 500_000


class HostCopy(Struct, frozen=True):
    """A memcpy of a step: its row, the outermost op that only copies, and the tensor it moved."""

    row: int
    op: int
    bytes: int
    pageable: bool
    tensor: Tensor

    @property
    def key(self) -> tuple[tuple[int, ...], str]:
        """Equal for copies of tensors of one shape and type."""
        return self.tensor.dims, self.tensor.type


def host_copies(step: Step, way: str, least: int = LARGE) -> Iterator[HostCopy]:
    """Copies of at least this size whose ops recorded shapes; `way` is `HtoD` or `DtoH`."""
    gpu, host = step.trace.gpu, step.trace.host
    rows = step.rows[gpu.is_memcpy[step.rows] & (gpu.bytes[step.rows] >= least)]
    makers = host.nearest_op(gpu.launch[rows])
    for row, maker in zip(rows.tolist(), makers.tolist(), strict=True):
        name, copies = step.name(int(gpu.id[row])), maker >= 0 and step.name(maker) == "aten::copy_"
        tensor = step.tensor(maker, 1) if copies and way in name else None
        if tensor is not None:
            size = int(gpu.bytes[row])
            yield HostCopy(row, outermost_move(step, maker), size, "Pageable" in name, tensor)


def outermost_move(step: Step, event: int) -> int:
    """The call of `.to()` or `.cuda()` around a copy."""
    above = int(step.trace.host.parent[event])
    while above >= 0 and step.name(above) in _MOVES:
        event, above = above, int(step.trace.host.parent[above])
    return event


def link_rate(step: Step) -> float:
    """Bytes per second that the link gives with pinned memory."""
    arch = step.device.arch if step.device else ""
    return FAST_LINK if arch.startswith(FAST_CARDS) else LINK


def cast_in(case: KernelRow) -> tuple[Tensor, Tensor] | None:
    """The tensor that a kernel turns into one of another type, and this."""
    call = case.call if case.call and case.call.name == "aten::copy_" else OpCall("")
    source, target = call.tensor(1), call.tensor(0)
    return (source, target) if source and target and source.type != target.type else None


def _ranges(step: Step, span: Span, pattern: re.Pattern[str]) -> Stretches:
    """Annotated ranges of a step whose name matches."""
    host = step.trace.host
    named = host.is_region & host.named(pattern.fullmatch)
    rows = np.flatnonzero(named & (host.start >= span.start_ns) & (host.start < span.end_ns))
    union = IntervalUnion(host.start[rows], host.end[rows])
    return tuple(zip(union.start.tolist(), union.end.tolist(), strict=True))


def loading(step: Step) -> Stretches:
    """When the host waits for the next batch of a DataLoader, or makes it."""
    return _ranges(step, step.span, LOADER)


def optimizing(step: Step) -> Stretches:
    """When the optimizer runs, and all that follows the backward pass: no part of a model."""
    nodes = np.flatnonzero(step.nodes.is_node[: step.trace.host.count] & step.inside)
    last = int(step.trace.host.end[nodes].max(initial=step.span.start_ns))
    behind = ((last, step.span.end_ns),) if len(nodes) and last < step.span.end_ns else ()
    return (*_ranges(step, step.span, OPTIMIZER), *behind)


def pauses(step: Step, span: Span | None = None) -> Stretches:
    """Long times in which the host runs no op, no call, no DataLoader and no optimizer."""
    host, span = step.trace.host, span or step.span
    rows = np.flatnonzero((host.is_op | host.is_call) & host.lasting)
    rows = rows[(host.end[rows] > span.start_ns) & (host.start[rows] < span.end_ns)]
    apart = _edges(_ranges(step, span, each) for each in (LOADER, OPTIMIZER))
    busy = np.concatenate((np.stack((host.start[rows], host.end[rows]), axis=1), apart))
    return _between(busy, span, LONG_NS)


def _edges(groups: Iterable[Stretches]) -> Ints:
    """The start and the end of each stretch, a row each."""
    return np.array([each for group in groups for each in group], np.int64).reshape(-1, 2)


def _between(busy: Ints, span: Span, least: int) -> Stretches:
    """What lies between these intervals in a step, where it is as long as this."""
    union = IntervalUnion(busy[:, 0], busy[:, 1])
    begin, until = np.append(span.start_ns, union.end), np.append(union.start, span.end_ns)
    pairs = zip(begin.tolist(), until.tolist(), strict=True)
    return tuple(pair for pair in pairs if pair[1] - pair[0] >= least)


def issuing(step: Step, *apart: Stretches) -> Stretches:
    """The host time of the step without Python alone, the DataLoader, and what else is `apart`."""
    return _between(_edges((pauses(step), loading(step), *apart)), step.span, 1)


def share(step: Step, stretches: Stretches, wanted_ns: float) -> float:
    """The share of this host time that `wanted_ns` is, at most 1."""
    return min(wanted_ns / max(step.host_ns(stretches), 1.0), 1.0)


def waited(step: Step, events: Ints) -> Ints:
    """Those of these events below which the host waited for the GPU."""
    return events[np.isin(events, step.trace.host.nearest(step.waiting, step.marked(events)))]


def copies(step: Step, events: Events, way: str) -> Ints:
    """The copies below these events that go one way (`HtoD`, `DtoH`)."""
    host, gpu, rows = step.trace.host, step.trace.gpu, step.below(events)
    return rows[gpu.is_memcpy[rows] & host.named(lambda name: way in name)[gpu.id[rows]]]


def tops(step: Step) -> Ints:
    """The ops that no other op is around, nodes of the backward pass and what they call left out,
    on the thread that has most of them, in order.
    """
    host = step.trace.host
    rows = step.outermost(step.inside & host.is_op)
    behind = step.nodes.is_node[: host.count] | host.named(lambda name: name.startswith(ENGINE))
    rows = rows[~behind[rows]]
    if not len(rows):
        return rows
    found: Ints = rows[host.track[rows] == np.bincount(host.track[rows]).argmax()]
    return found


# What makes the host wait, as a program writes it.
WAITS = {
    "aten::_local_scalar_dense": "item()",
    "aten::nonzero": "nonzero()",
    "aten::copy_": "a copy",
    "cudaDeviceSynchronize": "torch.cuda.synchronize()",
    "hipDeviceSynchronize": "torch.cuda.synchronize()",
}
NAMED = 2


def waits_text(step: Step) -> str:
    """`3 waits of the host (item(), nonzero())`; "" where it waits for nothing."""
    calls = step.waiting
    if not len(calls):
        return ""
    makers = zip(calls.tolist(), step.makers(calls).tolist(), strict=True)
    names = Counter(step.name(op if op >= 0 else call) for call, op in makers)
    words = [WAITS.get(name, name) for name, _ in names.most_common(NAMED)]
    count = plural(len(calls), "wait of the host", "waits of the host")
    return f"{count} ({', '.join(words)})"


CPU_COST = ProfilerCost(op=1_200)  # without a GPU to watch (torch 2.13)
MATMULS = frozenset({"addmm", "mm", "mv", "addmv", "bmm", "dot"})
Shares = tuple[float, float, float]  # of a time that goes: expected, at best, at worst


class CpuStep(Step):
    """The typical step of a CPU."""

    on_cpu = True

    @cached_property
    def usual(self) -> ReplayGraph:
        """The graph with the host times that it has without the profiler."""
        return replay.without_profiler(self.trace, self.graph, CPU_COST)

    @cached_property
    def computing(self) -> Ints:
        """The ops that compute, in order of time."""
        return self.in_order(np.flatnonzero(computing_ops(self.trace)[0] & self.inside))

    @cached_property
    def arguments(self) -> dict[int, OpCall]:
        """Those of them whose arguments were recorded."""
        found = {event: self.call(event) for event in self.computing.tolist()}
        return {event: call for event, call in found.items() if call.dims}

    def bare(self, event: int) -> str:
        """The name of an op without its namespace."""
        return bare(self.name(event))

    def took_ns(self, events: list[int]) -> float:
        """The recorded time of these ops."""
        return float(self.trace.host.length[events].sum()) if events else 0.0

    def together(self, events: list[int], most: int) -> Stretches:
        """The time of these events, in order, and of Python between two that are this close."""
        host, after = self.trace.host, np.array(events[1:], np.int64)
        ended = np.maximum.accumulate(host.end[events[:-1]]) if len(after) else after
        close = host.start[after] - ended < most
        pauses = zip(ended[close].tolist(), host.start[after[close]].tolist(), strict=True)
        return (*self.stretches(events), *pauses)

    def proposal(
        self,
        order: str,
        why: str,
        events: list[int],
        shares: Shares,
        risk: str = "",
        stretches: Stretches | None = None,
    ) -> Proposal:
        """A change after which these shares of the time of some events are gone."""
        removed = self.stretches(events) if stretches is None else stretches
        changes = of_each(lambda share: GraphChange(removed, 1 - share), shares)
        return Proposal(order, why, *changes, risk=risk, events=shown(events))


def dense(call: OpCall) -> list[Tensor]:
    """Tensor arguments with dimensions."""
    return [each for each in call.every_tensor() if each.dims]


def elements(call: OpCall) -> int:
    """The size of the largest of them."""
    return max((each.elements for each in dense(call)), default=0)
