"""Host ops by name: calls in a typical repeat, self CPU time, and the time of their kernels."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct

from foretrace.analyze.compare.launched import Kernel
from foretrace.analyze.compare.repeats import Repeats
from foretrace.model.intervals import Bools, Ints
from foretrace.model.spans import Span
from foretrace.model.trace import Trace
from foretrace.schema import compiled


class OpCalls(Struct, frozen=True):
    """Calls of one op per unit, its self CPU time, and the time of the kernels it launched."""

    calls: int = 0
    self_ns: float = 0
    gpu_ns: float = 0


class OpPair(Struct, frozen=True):
    """One op in A and in B: calls, self CPU time and kernel time per unit."""

    name: str
    a: int
    b: int
    a_ns: float
    b_ns: float
    a_gpu_ns: float
    b_gpu_ns: float

    @property
    def by_compiler(self) -> bool:
        """Whether torch.compile wrote this row around the code that it compiled."""
        return compiled.is_row(self.name)


class OpTable(Struct, frozen=True):
    """Each op is in one of the three: called less often in B, more often, or as often."""

    removed: tuple[OpPair, ...]
    added: tuple[OpPair, ...]
    same: tuple[OpPair, ...]


def host_ops(trace: Trace, found: Repeats, kernels: Iterable[Kernel]) -> dict[str, OpCalls]:
    """The ops of a typical repeat and its `kernels`; self CPU time is the median over repeats."""
    host = trace.host
    graphs = host.is_region & host.named(lambda name: name.startswith(compiled.GRAPH))
    calls, self_ns = Counter[str](), list[Counter[str]]()
    for span in found.spans:
        rows, spent = started_inside(trace, span, host.is_op | graphs), Counter[str]()
        names = [compiled.label(host.names[number]) for number in host.name[rows].tolist()]
        for name, length in zip(names, host.self_length[rows].tolist(), strict=True):
            spent[name] += length
        self_ns.append(spent)
        calls = Counter(names) if span is found.typical else calls
    gpu_ns: defaultdict[str, float] = defaultdict(float)
    for kernel in kernels:
        if kernel.op is not None:
            gpu_ns[compiled.label(kernel.op)] += kernel.length_ns or 0
    median = {name: statistics.median(spent[name] for spent in self_ns) for name in calls}
    return {name: OpCalls(calls[name], median[name], gpu_ns.get(name, 0)) for name in calls}


def started_inside(trace: Trace, span: Span, wanted: Bools) -> Ints:
    """The wanted host events that begin inside a span."""
    host = trace.host
    end = max(span.end_ns, span.start_ns + 1)
    inside = wanted & host.lasting & (host.start >= span.start_ns) & (host.start < end)
    if span.event >= 0:
        inside &= host.namespace == host.namespace[span.event]
    return np.flatnonzero(inside)


def compare_ops(a: Mapping[str, OpCalls], b: Mapping[str, OpCalls]) -> OpTable:
    """The ops of two typical repeats, the largest difference in calls first."""
    rows, none = [], OpCalls()
    for name in sorted({*a, *b}):
        old, new = a.get(name, none), b.get(name, none)
        times = (old.self_ns, new.self_ns, old.gpu_ns, new.gpu_ns)
        rows.append(OpPair(name, old.calls, new.calls, *times))
    rows.sort(key=lambda row: -abs(row.a - row.b))
    return OpTable(
        tuple(row for row in rows if row.a > row.b),
        tuple(row for row in rows if row.a < row.b),
        tuple(row for row in rows if row.a == row.b),
    )
