"""`look`: everything the contract promises about one trace, as one document of plain data."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from foretrace import families
from foretrace.model import bounds
from foretrace.model.host import step_number
from foretrace.model.reach import is_view, work_below
from foretrace.model.sequence import sequences
from foretrace.model.spans import Span
from foretrace.model.story import story
from foretrace.model.trace import Trace

SCHEMA = 1


class Look(dict[str, Any]):
    """The document, which a notebook shows as tables; drawing lies above this, so it is found by
    name.
    """

    def _repr_html_(self) -> str:
        found: str = import_module("foretrace.render.html.notebook").look_html(self)
        return found


def look(trace: Trace) -> Look:
    """The document of `foretrace look --json`."""
    from foretrace.analyses import run_all

    kernels = kernel_rows(trace)
    return Look(
        {
            "schema": SCHEMA,
            "trace": trace_entry(trace),
            "ledger": ledger_entry(trace),
            "totals": totals(trace),
            "steps": [_step(trace, span) for span in trace.spans.steps],
            "regions": [
                _region(trace, name, calls) for name, calls in trace.spans.region_groups().items()
            ],
            "kernels": kernels,
            "ops": op_rows(trace),
            "findings": [finding_entry(finding) for finding in run_all(trace)],
        }
    )


def full_look(trace: Trace) -> dict[str, Any]:
    """The contract's document under `look`, and beside it what only people read: the story, and
    what each region runs.
    """
    document, ran = look(trace), sequences(trace)
    return {"look": document, "story": story(document, ran), "sequences": ran}


def trace_entry(trace: Trace) -> dict[str, Any]:
    about = trace.about
    return {
        "path": trace.path,
        "source": trace.source,
        "device": about.device,
        "arch": about.arch,
        "rank": about.rank,
        "events": trace.event_count,
        "steps": len(trace.spans.steps),
        "regions": len(trace.spans.region_groups()),
    }


def ledger_entry(trace: Trace) -> dict[str, Any]:
    ledger = trace.ledger
    return {
        "seen": ledger.seen,
        "kept": ledger.kept,
        "repaired": ledger.repaired,
        "skipped": ledger.skipped,
        "notes": [note.entry() for note in ledger.notes],
    }


def totals(trace: Trace) -> dict[str, Any]:
    gpu, host = trace.gpu, trace.host
    timed = bool(gpu.usable.any())
    return {
        "kernels": int(gpu.is_kernel.sum()),
        "memcpys": int(gpu.is_memcpy.sum()),
        "memsets": int(gpu.is_memset.sum()),
        "launches": int(host.is_launch.sum()),
        "syncs": int(host.is_wait.sum()),
        "gpu_busy_ns": gpu.busy(gpu.usable) if timed else None,
        "gpu_span_ns": gpu.span(gpu.usable) if timed else None,
        "cpu_ops": int(host.is_op.sum()),
    }


def _step(trace: Trace, span: Span) -> dict[str, Any]:
    gpu = trace.gpu
    timeless = len(span.work) > 0 and not bool(gpu.usable[span.work].any())
    busy = None if timeless or not len(gpu) else gpu.busy(span.work)
    return {
        "name": span.name,
        "index": step_number(span.name),
        "cpu_ns": span.cpu_ns,
        "kernels": int(gpu.is_kernel[span.work].sum()),
        "memcpys": int(gpu.is_memcpy[span.work].sum()),
        "memsets": int(gpu.is_memset[span.work].sum()),
        "gpu_busy_ns": busy,
        "gpu_idle_ns": None if busy is None else gpu.span(span.work) - busy,
        "bound": bounds.of_span(trace, span),
    }


def _region(trace: Trace, name: str, calls: list[Span]) -> dict[str, Any]:
    gpu, count = trace.gpu, len(calls)
    # calls of one name may nest: their work then counts for each
    work = np.concatenate([span.work for span in calls])
    kernels = work[gpu.is_kernel[work]]
    roles, times = np.unique(trace.work_roles[kernels], return_counts=True)
    return {
        "name": name,
        "count": count,
        "cpu_ns": sum(span.cpu_ns for span in calls),
        "kernels_per_call": _per_call(len(kernels), count),
        "roles_per_call": {
            role: _per_call(number, count)
            for role, number in zip(roles.tolist(), times.tolist(), strict=True)
        },
        "gpu_busy_ns": gpu.busy(np.unique(work)) if len(gpu) else None,
        "bound": bounds.of_spans(trace, calls),
    }


def _per_call(count: int, calls: int) -> int | float:
    return count // calls if count % calls == 0 else round(count / calls, 3)


def kernel_rows(trace: Trace) -> list[dict[str, Any]]:
    """One row per distinct kernel name and op shapes, the most expensive first."""
    steps = len(trace.spans.steps)
    rows = [_kernel_row(trace, row, steps) for row in trace.kernel_cases.iter_rows(named=True)]
    return sorted(
        rows,
        key=lambda row: (
            -(row["total_ns"] or 0),
            row["name"],
            row["chain"],
            row["flops"] or 0,
            row["count"],
        ),
    )


def _kernel_row(trace: Trace, row: dict[str, Any], steps: int) -> dict[str, Any]:
    return {
        "name": row["name"],
        "short": row["short"],
        "family": row["family"],
        "role": row["role"],
        "fields": dict(families.decode(row["name"]).fields),
        "count": row["count"],
        "per_step": _per_call(row["in_steps"], steps) if steps else None,
        "total_ns": row["total_ns"] if row["timed"] else None,
        "median_ns": _whole(row["median_ns"]),
        "min_ns": row["min_ns"],
        "max_ns": row["max_ns"],
        "ops": row["ops"],
        "chain": list(trace.host.op_chain(row["op"])) if row["op"] is not None else [],
        "flops": row["flops"],
        "bytes": row["bytes"],
        "tflops": _rounded(row["tflops"]),
        "gbps": _rounded(row["gbps"]),
        "bound": row["bound"],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _whole(value: float | None) -> int | float | None:
    return None if value is None else int(value) if float(value).is_integer() else value


def op_rows(trace: Trace) -> list[dict[str, Any]]:
    """One row per op name: self and total host time, kernels launched anywhere below it."""
    host, gpu = trace.host, trace.gpu
    rows = np.flatnonzero(host.is_op)
    if not len(rows):
        return []
    numbers, inverse = np.unique(host.name[rows], return_inverse=True)
    count = np.bincount(inverse)
    kernels, work = (values[rows] for values in work_below(trace))
    sums = [
        np.bincount(inverse, weights=values).astype(np.int64)
        for values in (host.self_length[rows], host.length[rows], kernels, work)
    ]
    table = []
    for at, number in enumerate(numbers.tolist()):
        name = host.names[number]
        quiet = bool(sums[3][at] == 0) and is_view(name)
        table.append(
            {
                "name": name,
                "count": int(count[at]),
                "self_cpu_ns": int(sums[0][at]),
                "total_cpu_ns": int(sums[1][at]),
                "kernels": int(sums[2][at]) if len(gpu) else None,
                "metadata_only": quiet if len(gpu) else None,
            }
        )
    return sorted(table, key=lambda row: (-row["self_cpu_ns"], row["name"]))


def finding_entry(finding: Any) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "state": finding.state,
        "title": finding.title,
        "detail": finding.detail,
        "at_most_ns": finding.at_most_ns,
        "evidence": dict(finding.evidence),
        "events": list(finding.events),
    }


class _Callable(ModuleType):
    """Importing anything from this module puts it in the place of the function `foretrace.look`, so
    it answers as that.
    """

    __call__ = staticmethod(look)


sys.modules[__name__].__class__ = _Callable
