"""The document of `foretrace look --json`, made from one trace."""

from __future__ import annotations

from typing import Any

import numpy as np

from foretrace import families
from foretrace.analyses import run_all
from foretrace.model import bounds
from foretrace.model.host import step_number
from foretrace.model.reach import is_view, work_below
from foretrace.model.spans import Span
from foretrace.model.trace import Trace
from foretrace.schema.documents.look import (
    SCHEMA,
    FindingEntry,
    KernelRow,
    Look,
    OpRow,
    RegionRow,
    StepRow,
    Totals,
    TraceEntry,
)
from foretrace.schema.finding import Finding
from foretrace.schema.ledger import LedgerEntry


def document(trace: Trace) -> Look:
    """The whole document."""
    spans = trace.spans
    return Look(
        schema=SCHEMA,
        trace=_trace(trace),
        ledger=LedgerEntry.of(trace.ledger),
        totals=_totals(trace),
        steps=[_step(trace, span) for span in spans.steps],
        regions=[_region(trace, name, calls) for name, calls in spans.region_groups().items()],
        kernels=_kernel_rows(trace),
        ops=_op_rows(trace),
        findings=[_finding(finding) for finding in run_all(trace)],
    )


def _trace(trace: Trace) -> TraceEntry:
    about, spans = trace.about, trace.spans
    return TraceEntry(
        path=trace.path,
        source=trace.source,
        device=about.device,
        arch=about.arch,
        rank=about.rank,
        events=trace.event_count,
        steps=len(spans.steps),
        regions=len(spans.region_groups()),
    )


def _totals(trace: Trace) -> Totals:
    gpu, host = trace.gpu, trace.host
    timed = bool(gpu.usable.any())
    return Totals(
        kernels=int(gpu.is_kernel.sum()),
        memcpys=int(gpu.is_memcpy.sum()),
        memsets=int(gpu.is_memset.sum()),
        launches=int(host.is_launch.sum()),
        syncs=int(host.is_wait.sum()),
        gpu_busy_ns=gpu.busy(gpu.usable) if timed else None,
        gpu_span_ns=gpu.span(gpu.usable) if timed else None,
        cpu_ops=int(host.is_op.sum()),
    )


def _step(trace: Trace, span: Span) -> StepRow:
    gpu, work = trace.gpu, span.work
    timeless = len(work) > 0 and not bool(gpu.usable[work].any())
    busy = None if timeless or not len(gpu) else gpu.busy(work)
    return StepRow(
        name=span.name,
        index=step_number(span.name),
        cpu_ns=span.cpu_ns,
        kernels=int(gpu.is_kernel[work].sum()),
        memcpys=int(gpu.is_memcpy[work].sum()),
        memsets=int(gpu.is_memset[work].sum()),
        gpu_busy_ns=busy,
        gpu_idle_ns=None if busy is None else gpu.span(work) - busy,
        bound=bounds.of_span(trace, span),
    )


def _region(trace: Trace, name: str, calls: list[Span]) -> RegionRow:
    gpu, count = trace.gpu, len(calls)
    # calls of one name may nest: their work then counts for each
    work = np.concatenate([span.work for span in calls])
    kernels = work[gpu.is_kernel[work]]
    roles, times = np.unique(trace.work_roles[kernels], return_counts=True)
    by_role = zip(roles.tolist(), times.tolist(), strict=True)
    return RegionRow(
        name=name,
        count=count,
        cpu_ns=sum(span.cpu_ns for span in calls),
        kernels_per_call=_per_call(len(kernels), count),
        roles_per_call={role: _per_call(number, count) for role, number in by_role},
        gpu_busy_ns=gpu.busy(np.unique(work)) if len(gpu) else None,
        bound=bounds.of_spans(trace, calls),
    )


def _per_call(count: int, calls: int) -> int | float:
    return count // calls if count % calls == 0 else round(count / calls, 3)


def _kernel_rows(trace: Trace) -> list[KernelRow]:
    """One row per distinct kernel name and op shapes, the most expensive first."""
    rows = [_kernel_row(trace, case) for case in trace.kernel_cases.iter_rows(named=True)]
    return sorted(
        rows, key=lambda row: (-(row.total_ns or 0), row.name, row.chain, row.flops or 0, row.count)
    )


def _kernel_row(trace: Trace, case: dict[str, Any]) -> KernelRow:
    steps, op = len(trace.spans.steps), case["op"]
    same = ("name", "short", "family", "role", "count", "min_ns", "max_ns", "ops")
    return KernelRow(
        **{name: case[name] for name in same},
        fields=dict(families.decode(case["name"]).fields),
        per_step=_per_call(case["in_steps"], steps) if steps else None,
        total_ns=case["total_ns"] if case["timed"] else None,
        median_ns=_integral(case["median_ns"]),
        chain=list(trace.host.op_chain(op)) if op is not None else [],
        flops=case["flops"],
        bytes=case["bytes"],
        tflops=_rounded(case["tflops"]),
        gbps=_rounded(case["gbps"]),
        bound=case["bound"],
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _integral(value: float | None) -> int | float | None:
    """A median of integers as an integer where it is one."""
    return None if value is None else int(value) if float(value).is_integer() else value


def _op_rows(trace: Trace) -> list[OpRow]:
    """One row per op name: self and total host time, kernels launched anywhere below it."""
    host, has_gpu = trace.host, len(trace.gpu) > 0
    rows = np.flatnonzero(host.is_op)
    if not len(rows):
        return []
    numbers, inverse = np.unique(host.name[rows], return_inverse=True)
    kernels, work = (values[rows] for values in work_below(trace))
    sums = [
        np.bincount(inverse, weights=values).astype(np.int64).tolist()
        for values in (host.self_length[rows], host.length[rows], kernels, work)
    ]
    columns = zip(numbers.tolist(), np.bincount(inverse).tolist(), *sums, strict=True)
    table = [
        OpRow(
            name=host.names[number],
            count=count,
            self_cpu_ns=self_ns,
            total_cpu_ns=total_ns,
            kernels=below if has_gpu else None,
            metadata_only=work == 0 and is_view(host.names[number]) if has_gpu else None,
        )
        for number, count, self_ns, total_ns, below, work in columns
    ]
    return sorted(table, key=lambda row: (-row.self_cpu_ns, row.name))


def _finding(finding: Finding) -> FindingEntry:
    return FindingEntry(
        rule=finding.rule,
        state=finding.state,
        title=finding.title,
        detail=finding.detail,
        at_most_ns=finding.at_most_ns,
        evidence=dict(finding.evidence),
        events=list(finding.events),
    )
