"""One side of a comparison: the measured repeats of a trace, and what a typical one launches.

`docs/compare.md` ("What is compared") says what repeats. A region must hold nine tenths of the GPU
work: one around the optimizer alone must not represent a training step.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from foretrace.base.arrays import distinct
from foretrace.base.errors import UsageError
from foretrace.compare.documents import (
    ComparedOp,
    ComparedOps,
    LaunchConfig,
    LaunchedKernel,
    TimePair,
)
from foretrace.compare.measure import Sample, sample
from foretrace.read.compiler import records as compiled
from foretrace.trace.arguments import json_text
from foretrace.trace.cpu_ops import ops_inside, started_inside
from foretrace.trace.host import HOST_KINDS
from foretrace.trace.intervals import Ints, union_length
from foretrace.trace.spans import Span
from foretrace.trace.trace import Trace
from foretrace.work.kernel import INEXACT
from foretrace.work.kernel_row import KernelRow

# Both recorded MLPs, the training step and the matmul have all their GPU work inside the region;
# the optimizer's region of the recorded training step has 12%. Anything between a half and nine
# tenths would do.
WHOLE = 0.9


class RepeatUnit(Struct, frozen=True):
    """What repeats: `kind` is region, step or trace; `name` is the region's, else empty."""

    kind: str
    name: str = ""

    @property
    def word(self) -> str:
        """What one repeat is called."""
        return {"region": "call", "step": "step", "trace": "run"}[self.kind]


class Repeats(Struct, frozen=True):
    """The repeats of one trace. Counts, orders and the times of single operations are those of
    `typical`: of the repeats with the kernels of most (`agreeing`), the one with the median GPU
    time, so that its parts add up to what is reported. `idle` ones launched nothing while others
    did: left out.
    """

    spans: tuple[Span, ...]
    typical: Span
    agreeing: int
    idle: int


def choose(traces: Sequence[Trace], region: str | None = None) -> RepeatUnit:
    """The unit that all the traces share."""
    groups = [trace.spans.region_groups() for trace in traces]
    if region is not None:
        for trace, found in zip(traces, groups, strict=True):
            if region not in found:
                known = ", ".join([*found][:8]) or "none"
                raise UsageError(f"{trace.path} has no region {region!r}; it has {known}")
        return RepeatUnit("region", region)
    around = [trace.spans.steps or [_whole_trace(trace)] for trace in traces]
    rows = [distinct(np.concatenate([span.work for span in spans])) for spans in around]
    every = [*zip(traces, around, rows, strict=True)]
    whole = [
        name
        for name in groups[0]
        if all(name in found for found in groups)
        and not name.startswith(compiled.GRAPH)  # torch writes these; the name holds a hash
        and min(_share(*each, name) for each in every) >= WHOLE
    ]

    def preference(name: str) -> tuple[bool, float, str]:
        """Repeated regions first, then the outermost: the one whose calls last longest."""
        calls = [found[name] for found in groups]
        lengths = sum(statistics.median(span.cpu_ns for span in spans) for spans in calls)
        return min(len(spans) for spans in calls) > 1, lengths, name

    if whole:
        return RepeatUnit("region", max(whole, key=preference))
    return RepeatUnit("step") if all(trace.spans.steps for trace in traces) else RepeatUnit("trace")


def repeats(trace: Trace, unit: RepeatUnit) -> Repeats:
    """The repeats of `unit` in one trace."""
    if unit.kind == "region":
        every = trace.spans.region_groups()[unit.name]
    else:
        every = trace.spans.steps if unit.kind == "step" else [_whole_trace(trace)]
    busy = [span for span in every if len(span.work)] or every
    kernels = (span.work[trace.gpu.is_kernel[span.work]] for span in busy)
    forms = [tuple(trace.host.name[trace.gpu.id[rows]].tolist()) for rows in kernels]
    often = Counter(forms)
    best = max(range(len(busy)), key=lambda at: (often[forms[at]], len(forms[at]), at))
    agreeing = [span for span, form in zip(busy, forms, strict=True) if form == forms[best]]
    ranked = sorted(agreeing, key=lambda span: (trace.spans.busy(span), span.cpu_ns))
    typical = ranked[(len(ranked) - 1) // 2]
    return Repeats(tuple(busy), typical, len(agreeing), len(every) - len(busy))


def _share(trace: Trace, around: Sequence[Span], every: Ints, name: str) -> float:
    """The part of the recording inside the calls of a region: of the steps, else of everything."""
    calls = trace.spans.region_groups()[name]
    if len(trace.gpu):
        held = distinct(np.concatenate([span.work for span in calls]))
        return float(np.isin(held, every).sum() / max(len(every), 1))
    total = _covered(around)
    return min(_covered(calls) / total, 1.0) if total else 0.0


def _covered(spans: Sequence[Span]) -> int:
    """Host time inside at least one of them: calls on several threads overlap."""
    starts, ends = [span.start_ns for span in spans], [span.end_ns for span in spans]
    return union_length(np.array(starts), np.array(ends))


def _whole_trace(trace: Trace) -> Span:
    host = trace.host
    rows = np.flatnonzero(host.is_kind(*HOST_KINDS) & host.lasting)
    begin, end = (int(host.start[rows].min()), int(host.end[rows].max())) if len(rows) else (0, 0)
    return Span("", 0, -1, begin, end, trace.gpu.launch_order)


LAUNCH = LaunchConfig.__struct_fields__
COLUMNS = ["id", "op", "op_name", "dur_ns", "flops", "bytes", "bytes_written", "cost_certainty"]
COPIES = {"gpu_memcpy": "memcpy", "gpu_memset": "memset"}  # role of work that is no kernel

Kind = tuple[str, LaunchConfig, str | None]


class Kernel(LaunchedKernel, frozen=True):
    """One launch of a kernel, memcpy or memset in a typical repeat. `length_ns` is its own time,
    `ns` that of every launch of its kind.

    `bytes` is its memory traffic as `look` shows it, a mere estimate where `estimated`; `alone`
    when the op's call launched no other kernel. `call` is the op's call, -1 without one; `group`
    is what the model's author would call the work. `origins` are the ops that a generated kernel
    performs, and `sources` its lines, where the compiler's records are beside the trace. `row` is
    its row of `trace.gpu`.
    """

    op: str | None
    path: tuple[str, ...]
    flops: int | None
    bytes: int | None
    written: int | None
    estimated: bool
    ns: Sample
    alone: bool
    length_ns: int | None = None
    call: int = -1
    group: str = ""
    origins: frozenset[str] = frozenset()
    sources: tuple[str, ...] = ()
    row: int = -1

    @property
    def name(self) -> str:
        """The name of its kernel."""
        return self.kernel.name

    @property
    def short(self) -> str:
        """The short name of its kernel."""
        return self.kernel.short

    @property
    def family(self) -> str:
        """The family of its kernel."""
        return self.kernel.family

    @property
    def role(self) -> str:
        """The role of its kernel."""
        return self.kernel.role

    @property
    def shapes(self) -> str | None:
        """The shapes of its kernel; of a memcpy or memset its size."""
        return self.kernel.shapes

    @property
    def bound(self) -> str:
        """What bounds its kernel."""
        return self.kernel.bound

    @property
    def kind(self) -> Kind:
        """Two kernels are the same only when these agree."""
        return self.name, self.config, self.shapes

    @property
    def is_kernel(self) -> bool:
        """Whether it is a kernel, not a memcpy or memset."""
        return self.role not in COPIES.values()


def launch_recorded(a: Trace, b: Trace) -> list[str]:
    """The parts of a launch that both traces record: AMD's have no registers, old ones no grid."""

    def recorded(trace: Trace, part: str) -> bool:
        return bool(trace.kernels[part].count() or not trace.kernels.height)

    return [part for part in LAUNCH if recorded(a, part) and recorded(b, part)]


def launched(
    trace: Trace, found: Repeats, tick_ns: int, launch: Sequence[str]
) -> tuple[Kernel, ...]:
    """The GPU work of a typical repeat in launch order; `launch` are the parts that count."""
    rows, kernels = _rows(trace), _kernels(trace)
    kinds, spent = _kinds(launch, rows, kernels), rows["dur_ns"].to_list()
    lengths: defaultdict[Kind, list[float | None]] = defaultdict(list)
    for span in found.spans:
        for at in span.work.tolist():
            lengths[kinds[at]].append(spent[at])
    samples = {kind: sample(values, tick_ns) for kind, values in lengths.items()}
    call = trace.origins.call
    calls = Counter(call[trace.gpu.is_kernel].tolist())

    @cache
    def path(chain: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(compiled.label(each) for each in chain)

    texts: dict[str | None, Any] = {}  # equal ones are one object: there may be many rows

    def one(text: str | None) -> Any:
        return texts.setdefault(text, text)

    def kernel(at: int, known: dict[str, Any]) -> Kernel:
        kind, op = kinds[at], known["op"]
        chain = trace.origins.host.op_chain(op) if op is not None else ()
        return Kernel(
            *(kernels[at], kind[1], one(known["op_name"]), path(chain)),
            *(known["flops"], known["bytes"], known["bytes_written"]),
            known["cost_certainty"] in INEXACT,
            samples[kind],
            kernels[at].role not in COPIES.values() and calls[int(call[at])] == 1,
            known["dur_ns"],
            int(call[at]),
            one(str(trace.work_groups[at])),
            *_origin(trace, known["id"]),
            at,
        )

    typical = found.typical.work
    every = zip(typical.tolist(), rows[typical].iter_rows(named=True), strict=True)
    return tuple(kernel(at, known) for at, known in every)


def _origin(trace: Trace, event: int) -> tuple[frozenset[str], tuple[str, ...]]:
    """The ops that a compiled kernel performs and the lines they are on, as recorded."""
    launch = trace.compiled.get(event)
    if launch is None:
        return frozenset(), ()
    from foretrace.trace.compiled.provenance import begun, performed

    ops = frozenset() if launch.call.extern else performed(launch) | begun(launch)
    return ops, tuple(dict.fromkeys(line.place for line in launch.lines))


def _rows(trace: Trace) -> pl.DataFrame:
    """One row for each row of `trace.gpu`."""
    kernels, size = trace.kernels.select(*COLUMNS, *LAUNCH), pl.col("bytes")
    copies = trace.copies.select("id", "op", "op_name", "dur_ns", _moved(), bytes_written=size)
    return pl.concat([kernels, copies], how="diagonal_relaxed").sort("id")


def _moved() -> pl.Expr:
    """What a memcpy or memset reads and writes: one within the GPU does both."""
    within = pl.col("name").str.contains("DtoD")
    return pl.col("bytes") * pl.when(within).then(2).otherwise(1)


def _kernels(trace: Trace) -> list[KernelRow]:
    """The kernel of every row of `trace.gpu`; memcpys and memsets have a role of their own."""

    @cache
    def copied(name: str, kind: str, size: int | None) -> KernelRow:
        return KernelRow(
            name=name, short=name, role=COPIES.get(kind, "memcpy"), bound="copy", shapes=str(size)
        )

    sizes = trace.copies.select("name", "kind", _moved()).iter_rows()
    numbers = trace.order.case_of_work.tolist()
    return [trace.kernel_rows[at] if at >= 0 else copied(*next(sizes)) for at in numbers]


def _kinds(launch: Sequence[str], rows: pl.DataFrame, kernels: Sequence[KernelRow]) -> list[Kind]:
    """The kind of every row, one object for each."""
    known: dict[Kind, Kind] = {}

    def kind(kernel: KernelRow, parts: Mapping[str, Any]) -> Kind:
        if kernel.role in COPIES.values():
            return kernel.name, LaunchConfig(), kernel.shapes
        # grids and blocks are JSON text in the document
        texts = {part: json_text(value) for part, value in parts.items() if type(value) is list}
        return kernel.name, LaunchConfig(**{**parts, **texts}), kernel.shapes

    configs = rows.select(launch).iter_rows(named=True) if launch else ({} for _ in kernels)
    every = map(kind, kernels, configs)
    return [known.setdefault(each, each) for each in every]


class OpCalls(Struct, frozen=True):
    """Calls of one op per unit, its self CPU time, and the time of the kernels it launched.

    `each_ns` is the self CPU time in each repeat, `self_ns` their median.
    """

    calls: int = 0
    self_ns: float = 0
    gpu_ns: float = 0
    each_ns: tuple[int, ...] = ()


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
    each = {name: tuple(spent[name] for spent in self_ns) for name in calls}
    return {
        name: OpCalls(calls[name], statistics.median(times), gpu_ns.get(name, 0), times)
        for name, times in each.items()
    }


def compare_ops(a: Mapping[str, OpCalls], b: Mapping[str, OpCalls]) -> ComparedOps:
    """The ops of two typical repeats, the largest difference in calls first."""
    rows, none = [], OpCalls()
    for name in sorted({*a, *b}):
        old, new = a.get(name, none), b.get(name, none)
        times = TimePair(old.self_ns, new.self_ns), TimePair(old.gpu_ns, new.gpu_ns)
        apart, (one, two) = None, (old.each_ns, new.each_ns)
        if min(len(one), len(two)) > 1:  # all repeats of one side are below those of the other
            apart = max(one) < min(two) or max(two) < min(one)
        rows.append(ComparedOp(name, old.calls, new.calls, *times, apart))
    rows.sort(key=lambda row: -abs(row.a - row.b))
    return ComparedOps(
        tuple(row for row in rows if row.a > row.b),
        tuple(row for row in rows if row.a < row.b),
        tuple(row for row in rows if row.a == row.b),
    )


# GPU times of NVIDIA cards move in steps of 32 ns (all 4,701 kernels of the recorded training step
# lie within 2 ns of a multiple); older Kineto wrote whole microseconds.
TICK_NS, COARSE_TICK_NS = 32, 1000


class Side(Struct, frozen=True):
    """One trace of a comparison; `work` and counts are those of a typical repeat.

    `outside_ns` is the host time outside of all ops, the median over repeats.
    """

    trace: Trace
    unit: RepeatUnit
    repeats: Repeats
    gpu: Sample
    cpu: Sample
    wall: Sample
    idle: Sample
    pace: Sample
    work: tuple[Kernel, ...]
    ops: Mapping[str, OpCalls]
    launches: int
    outside_ns: float

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Kernels of a typical repeat, in launch order."""
        return tuple(each for each in self.work if each.is_kernel)

    @property
    def memcpys(self) -> int:
        """Memcpys of a typical repeat."""
        return sum(each.role == "memcpy" for each in self.work)

    @property
    def memsets(self) -> int:
        """Memsets of a typical repeat."""
        return sum(each.role == "memset" for each in self.work)


def side(trace: Trace, unit: RepeatUnit, launch: Sequence[str]) -> Side:
    """Measure the repeats of `unit`; `launch` are the parts of a launch that both traces record."""
    found = repeats(trace, unit)
    tick = COARSE_TICK_NS if trace.ledger.count("ts_precision") else TICK_NS
    times = [_times(trace, span) for span in found.spans]
    gpu, cpu, wall, idle, pace = (sample(values, tick) for values in zip(*times, strict=True))
    work = launched(trace, found, tick, launch)
    ops = host_ops(trace, found, [each for each in work if each.is_kernel])
    launches = len(started_inside(trace, found.typical, trace.host.is_launch))
    outside = statistics.median(span.cpu_ns - ops_inside(trace, span)[1] for span in found.spans)
    return Side(trace, unit, found, gpu, cpu, wall, idle, pace, work, ops, launches, outside)


def _times(trace: Trace, span: Span) -> tuple[int | None, ...]:
    """GPU busy, host, wall, GPU idle and pace of one repeat.

    Wall runs from the start of the repeat to the end of its host range or of its GPU work,
    whichever is later; while the GPU still runs what was launched earlier, it has not begun. Pace
    is the larger of host and GPU time: calls made one after the other cannot follow each other
    faster.
    """
    gpu = trace.gpu
    usable = span.work[gpu.usable[span.work]]
    host = span.cpu_ns if span.end_ns > span.start_ns else None
    if not len(gpu):
        return None, host, host, None, host
    if len(span.work) > len(usable):
        return None, host, None, None, None  # GPU work without a time
    busy = trace.spans.busy(span)
    starts = [span.start_ns] if host is not None else gpu.start[usable].tolist()
    ends = [*([span.end_ns] if host is not None else []), *gpu.end[usable].tolist()]
    wall = None
    if starts and ends and gpu.aligned:
        wall = max(max(ends) - max(min(starts), trace.spans.drained(span)), busy)
    pace = max(busy, host) if host is not None else None
    return busy, host, wall, gpu.span(usable) - gpu.busy(usable), pace
