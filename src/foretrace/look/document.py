"""The document of `foretrace look --json`, made from one trace."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct, convert
from msgspec.structs import replace

from foretrace.base.arrays import coded, counted, distinct, median
from foretrace.look import documents as look
from foretrace.look.documents import Findings, ModuleRow
from foretrace.read.ledger import LedgerEntry
from foretrace.trace import bounds
from foretrace.trace.analysis import Analysis
from foretrace.trace.cpu_ops import computing_ops, ops_inside, runs_on_cpu
from foretrace.trace.host import step_number
from foretrace.trace.idle import unrecorded_wait
from foretrace.trace.intervals import Bools
from foretrace.trace.metadata import TraceEntry, device_of
from foretrace.trace.modules import CPU, ModuleWork
from foretrace.trace.recording import gpu_time_below, is_view, work_below
from foretrace.trace.serving import ServedBatch
from foretrace.trace.spans import Span
from foretrace.trace.trace import Trace, per_call
from foretrace.trace.utilization import floor, utilization
from foretrace.work.costs.limits import memory_rate, with_measured
from foretrace.work.devices import Device


def document(trace: Trace, findings: Findings) -> look.Look:
    """The whole document."""
    about, steps, regions = trace.about, trace.spans.steps, trace.spans.region_groups()
    counts = (trace.event_count, len(steps), len(regions))
    named = (trace.path, trace.source, about.device, about.arch, about.rank)
    gpu, host = trace.gpu, trace.host
    timed = bool(gpu.usable.any())
    rows = sorted(
        trace.kernel_rows,
        key=lambda row: (-(row.total_ns or 0), row.name, row.chain, row.flops or 0, row.count),
    )
    return look.Look(
        look.SCHEMA,
        TraceEntry(*named, *counts),
        LedgerEntry.of(trace.ledger),
        look.Totals(
            kernels=int(gpu.is_kernel.sum()),
            memcpys=int(gpu.is_memcpy.sum()),
            memsets=int(gpu.is_memset.sum()),
            launches=int(host.is_launch.sum()),
            syncs=int(host.is_wait.sum()),
            gpu_busy_ns=gpu.busy(gpu.usable) if timed else None,
            gpu_span_ns=gpu.span(gpu.usable) if timed else None,
            cpu_ops=int(host.is_op.sum()),
        ),
        [_step(trace, span) for span in steps],
        [_region(trace, name, calls) for name, calls in regions.items()],
        rows,
        op_rows(trace),
        [*findings],
        options=list(about.options),
        modules=module_rows(trace),
        serving=serving_rows(trace),
        collectives=convert(trace.collectives.to_dicts(), list[look.CollectiveRow]),
        roofs=roofs_entry(device_of(about)) if len(trace.gpu) else None,
        unrecorded=_unrecorded(trace),
        memory=memory_of(trace),
    )


def _unrecorded(trace: Trace) -> look.UnrecordedWait | None:
    found, host = unrecorded_wait(trace), trace.host
    if found is None:
        return None
    event, ns = found
    op = int(host.nearest_op(host.parent[np.array([event])])[0])
    named = host.names[host.name[op]] if op >= 0 else ""
    return look.UnrecordedWait(host.names[host.name[event]], named, ns, event)


def roofs_entry(device: Device | None) -> look.RoofsEntry | None:
    """The roofs of a device; None where it is not known."""
    if device is None:
        return None
    best, measured = with_measured(device), device.measured
    cached = measured.l2_bytes_per_s if measured else None
    return look.RoofsEntry(
        device.name,
        memory_rate(device) / 1e9,
        None if cached is None else cached / 1e9,
        device.cache_bytes,
        {name: best.peak_flops[name] / 1e12 for name in device.peak_flops},
        measured is not None,
        measured.source if measured else device.source,
        tuple(sorted({*device.peak_flops} - {*(measured.flops if measured else ())})),
    )


def memory_of(trace: Analysis) -> look.TraceMemory | None:
    """From the snapshot beside the trace, else from its memory events; None without either."""
    view = trace.memory_view
    if view is None:
        if not trace.has("memory"):
            return None
        from foretrace.trace.traced_memory import MemoryTable

        table = MemoryTable(trace)
        rows = ((table.kind != CPU) & (table.allocated > 0)).nonzero()[0]
        if not len(rows):
            return None
        peak = int(rows[table.allocated[rows].argmax()])
        device = int(table.device[peak])
        same = rows[table.device[rows] == device]
        reserved, first = int(table.reserved[same].max()), int(same[0])
        before = max(int(table.allocated[first] - table.bytes[first]), 0)
        held = reserved if reserved > 0 else None
        return look.TraceMemory(
            f"GPU {device}", int(table.allocated[peak]), held, before_bytes=before
        )
    from foretrace.trace.allocator.categories import by_category

    parts = by_category(view.lives.size, view.category, view.holders)
    return look.TraceMemory(
        f"GPU {view.history.device}",
        view.peak_bytes,
        int(view.reserved.max()),
        os.path.basename(view.snapshot.path),
        parts,
    )


def _step(trace: Trace, span: Span) -> look.StepRow:
    gpu, work = trace.gpu, span.work
    timeless = len(work) > 0 and not bool(gpu.usable[work].any())
    busy = None if timeless or not len(gpu) else trace.spans.busy(span)
    spent = bounds.spent(trace, span)
    ops = ops_inside(trace, span) if runs_on_cpu(trace) else (None, None)
    return look.StepRow(
        *(span.name, step_number(span.name), span.cpu_ns),
        kernels=int(gpu.is_kernel[work].sum()),
        memcpys=int(gpu.is_memcpy[work].sum()),
        memsets=int(gpu.is_memset[work].sum()),
        gpu_busy_ns=busy,
        gpu_idle_ns=None if busy is None else gpu.idle_within(work),
        bound=bounds.of_span(trace, span),
        recorded_ns=spent.recorded_ns if spent else None,
        ops=ops[0],
        ops_ns=ops[1],
    )


def _region(trace: Trace, name: str, calls: list[Span]) -> look.RegionRow:
    gpu, count = trace.gpu, len(calls)
    # calls of one name may nest: their work then counts for each
    work = np.concatenate([span.work for span in calls])
    kernels = work[gpu.is_kernel[work]]
    roles, times = counted(trace.work_roles[kernels])
    by_role = zip(roles.tolist(), times.tolist(), strict=True)
    return look.RegionRow(
        name=name,
        count=count,
        cpu_ns=sum(span.cpu_ns for span in calls),
        kernels_per_call=per_call(len(kernels), count),
        roles_per_call={role: per_call(number, count) for role, number in by_role},
        gpu_busy_ns=gpu.busy(distinct(work)) if len(gpu) else None,
        bound=bounds.of_spans(trace, calls),
        gpu_ns_per_call=trace.spans.median_busy(calls),
    )


def op_rows(trace: Trace, inside: Bools | None = None) -> list[look.OpRow]:
    """One row per op name: self and total host time, kernels and GPU time launched below it; of all
    ops, or of those inside something.
    """
    host, has_gpu = trace.host, len(trace.gpu) > 0
    rows = np.flatnonzero(host.is_op if inside is None else host.is_op & inside)
    if not len(rows):
        return []
    numbers, inverse = coded(host.name[rows])
    on_cpu = runs_on_cpu(trace)
    launched, work = work_below(trace, kernels=True), trace.work_below
    if on_cpu:
        work = computing_ops(trace)[1].astype(np.int64)  # a reshape that copies is no view
    told, below = has_gpu or on_cpu, (launched, work, gpu_time_below(trace))
    # a call inside one of its own name, such as aten::mean, adds nothing but its own time
    above = host.parent[rows]
    outer = (above < 0) | (host.name[above] != host.name[rows])
    sums = [
        np.bincount(inverse, weights=values[rows] * counts).astype(np.int64).tolist()
        for values, counts in (
            (host.self_length, 1),
            *((each, outer) for each in (host.length, *below)),
        )
    ]
    columns = zip(numbers.tolist(), np.bincount(inverse).tolist(), *sums, strict=True)
    table = [
        look.OpRow(
            *(host.names[number], count, self_ns, total_ns),
            kernels=kernels if has_gpu else None,
            metadata_only=work == 0 and is_view(host.names[number]) if told else None,
            gpu_ns=gpu_ns if has_gpu else None,
        )
        for number, count, self_ns, total_ns, kernels, work, gpu_ns in columns
    ]
    return sorted(table, key=lambda row: (-row.self_cpu_ns, row.name))


def serving_rows(trace: Trace) -> list[look.ServingRow]:
    """One row for each kind of batch: equal kinds with equally many requests are one."""
    alike: dict[tuple[str, int], list[tuple[Span, ServedBatch]]] = {}
    for span, batch in zip(trace.served.spans, trace.served.batches, strict=True):
        count = batch.prefill.count + batch.decode.count
        alike.setdefault((batch.kind, count), []).append((span, batch))
    wait = unrecorded_wait(trace)
    made = (_serving_row(trace, pairs, wait) for pairs in alike.values())
    return sorted(filter(None, made), key=lambda row: -row.time_ns * row.batches)


def _serving_row(
    trace: Trace, pairs: list[tuple[Span, ServedBatch]], wait: tuple[int, int] | None
) -> look.ServingRow | None:
    timed = [(span, batch, time) for span, batch in pairs if (time := bounds.spent(trace, span))]
    timed = [each for each in timed if each[2].busy_ns > 0]
    if not timed:
        return None
    spans = [span for span, _, _ in timed]
    batches = [batch for _, batch, _ in timed]
    contexts = [batch.context for batch in batches if batch.context is not None]
    whole = median(max(time.wall_ns, time.busy_ns) for _, _, time in timed)
    # how long the host waited in a batch for what the trace does not show
    event, ns = wait or (-1, 0)
    at = int(trace.host.start[event]) if event >= 0 else None
    waits = (at is not None and span.start_ns <= at < span.end_ns for span in spans)
    unseen = median(ns if inside else 0 for inside in waits)
    wall = max(whole - unseen, 1)
    used, least = utilization(trace, spans), floor(trace, spans)
    first = batches[0]
    return look.ServingRow(
        kind=first.kind,
        batches=len(timed),
        requests=first.prefill.count + first.decode.count,
        tokens=median(batch.tokens for batch in batches),
        context=median(contexts) if len(contexts) == len(batches) else None,
        time_ns=round(wall),
        gpu_busy_ns=round(median(time.busy_ns for _, _, time in timed)),
        tokens_per_s=median(batch.tokens for batch in batches) / wall * 1e9,
        bound=bounds.of_spans(trace, spans),
        floor_ns=None if least is None else round(least.ns),
        floor_by="" if least is None else least.by,
        mfu=used.mfu_wall and used.mfu_wall * whole / wall,
        mbu=used.mbu_wall and used.mbu_wall * whole / wall,
        profiled=used.profiled,
        unrecorded_ns=round(unseen),
    )


PASSES = ("forward_ns", "backward_ns", "recomputed_ns")
TIMES = ("total_ns", *PASSES)


class ModuleNode(Struct):
    """Equal modules of one parent, and the modules that each of them calls, equal ones as one."""

    rows: list[ModuleRow]
    children: list[ModuleNode] = []

    @property
    def row(self) -> ModuleRow:
        """The first of them."""
        return self.rows[0]

    def sum(self, name: str) -> int:
        """The sum of a column over the equal modules."""
        return sum(getattr(row, name) or 0 for row in self.rows)

    def own(self, name: str) -> int:
        """The same without the modules that they call."""
        return self.sum(name) - sum(child.sum(name) for child in self.children)

    @property
    def mfu(self) -> float | None:
        """The share of the peak over the time of all."""
        known = [row.mfu * row.total_ns for row in self.rows if row.mfu is not None]
        total = self.sum("total_ns")
        return sum(known) / total if known and total else None

    @property
    def shape(self) -> tuple[object, ...]:
        """What equal modules have in common: the class, the calls, the FLOP, and all inside."""
        row, inside = self.row, tuple(child.shape for child in self.children)
        return row.kind or row.name, row.calls, row.flops, inside


def module_rows(trace: Trace) -> list[ModuleRow]:
    """Every nn.Module in order of its first call, then what no module owns."""
    found = trace.modules.rows
    whole = sum(work.total_ns for work in found if not work.path)
    rows = [_row(work, whole) for work in found]
    roots = _tree(rows)
    equals: dict[tuple[str, ...], int] = {}
    for siblings in [roots, *(node.children for node in _every(roots))]:
        count = Counter(node.shape for node in siblings)
        equals |= {(*node.row.path, node.row.name): count[node.shape] for node in siblings}
    return [replace(row, folded=equals.get((*row.path, row.name), 1)) for row in rows]


def _row(work: ModuleWork, whole: int) -> ModuleRow:
    total = work.total_ns
    mfu = work.flop_ns / total if work.flop_ns is not None and total else None
    share = round(total / whole, 6) if whole else 0.0
    return ModuleRow(
        *(work.name, work.calls, work.kernels, work.gpu_ns, work.kind, list(work.path)),
        *(total, share, work.forward_ns, work.backward_ns, work.recomputed_ns),
        flops=work.flops,
        mfu=None if mfu is None else round(min(mfu, 1.0), 6),
        memory_bytes=work.memory_bytes,
    )


def folded_tree(rows: Iterable[ModuleRow]) -> list[ModuleNode]:
    """The outermost modules with all inside, and the rows of work that no module owns."""
    return _folded(_tree(rows))


def _tree(rows: Iterable[ModuleRow]) -> list[ModuleNode]:
    """The same with a node for every row: a module comes after those around it."""
    found: dict[tuple[str, ...], ModuleNode] = {}
    roots: list[ModuleNode] = []
    for row in rows:
        node = found[(*row.path, row.name)] = ModuleNode([row], [])
        around = found.get(tuple(row.path))
        if around is not None:
            around.children.append(node)
        elif not row.path:
            roots.append(node)
    return roots


def _folded(nodes: Sequence[ModuleNode]) -> list[ModuleNode]:
    """Equal siblings as one node, in order of the first of each."""
    alike: dict[tuple[object, ...], list[ModuleNode]] = {}
    for node in nodes:
        alike.setdefault(node.shape, []).append(node)
    return [
        ModuleNode([row for node in equals for row in node.rows], _folded(_joined(equals)))
        for equals in alike.values()
    ]


def _joined(same: Sequence[ModuleNode]) -> list[ModuleNode]:
    places = zip(*(node.children for node in same), strict=True)
    return [
        ModuleNode([row for node in each for row in node.rows], _joined(each)) for each in places
    ]


def _every(nodes: Sequence[ModuleNode]) -> Iterable[ModuleNode]:
    for node in nodes:
        yield node
        yield from _every(node.children)


def kinds(nodes: Sequence[ModuleNode]) -> list[tuple[str, Counter[str]]]:
    """By class, the most time first: the number of `modules`, and the times of what they launch
    outside of the modules that they call, which add up to the time of all modules.
    """
    found: dict[str, Counter[str]] = {}
    for node in _every(nodes):
        if kind := node.row.kind:
            times = found.setdefault(kind, Counter())
            times.update({name: node.own(name) for name in TIMES}, modules=len(node.rows))
    timed = [(kind, times) for kind, times in found.items() if times["total_ns"]]
    return sorted(timed, key=lambda pair: (-pair[1]["total_ns"], pair[0]))
