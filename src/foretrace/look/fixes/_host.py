"""What the host does in a step: where it issues work, loads data, copies, or runs Python alone.

A CPU that computes does one thing after another, so the graph of its step is host time alone.
bfloat16 is not proposed to it: most CPUs have no units for it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np
from msgspec import Struct

from foretrace.base.patterns import regex
from foretrace.base.units import plural
from foretrace.look.fixes._step import Events, Proposal, Step, Stretches, of_each, shown
from foretrace.trace import replay
from foretrace.trace.autograd import ENGINE
from foretrace.trace.cpu_ops import bare, computing_ops
from foretrace.trace.intervals import IntervalUnion, Ints
from foretrace.trace.replay import GraphChange, ProfilerCost, ReplayGraph
from foretrace.trace.spans import Span
from foretrace.work.costs import OpCall, Tensor
from foretrace.work.kernel_row import KernelRow

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


COST = ProfilerCost(op=1_200)  # without a GPU to watch (torch 2.13)
MATMULS = frozenset({"addmm", "mm", "mv", "addmv", "bmm", "dot"})
Shares = tuple[float, float, float]  # of a time that goes: expected, at best, at worst


class CpuStep(Step):
    """The typical step of a CPU."""

    on_cpu = True

    @cached_property
    def usual(self) -> ReplayGraph:
        """The graph with the host times that it has without the profiler."""
        return replay.without_profiler(self.trace, self.graph, COST)

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
