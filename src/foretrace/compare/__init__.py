"""Compare traces: what changed, what stayed the same, and whether the change is worth its cost.

    a, b = ft.open("mlp_eager.json.gz"), ft.open("mlp_compiled.json.gz")
    found = ft.compare(a, b)
    found.verdict.answer                        # faster, slower, same, inconclusive, different
    found.gpu_ns.ratio, found.gpu_ns.noise      # 0.88, 0.01
    found.work                                  # one row for each change on the GPU
    document(found)                             # what `foretrace compare --json` prints

`sides` decides what is compared, `measure` what the noise is, `matching` which kernels correspond,
`changes` which replacements are fusions, `verdict` which side is faster, and `lines` says it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET, Struct
from msgspec.structs import replace

from foretrace.base.errors import TraceError, UsageError
from foretrace.compare import documents
from foretrace.compare.articles import published_of
from foretrace.compare.changes import KernelPair, compare_kernels, work_changes
from foretrace.compare.lines import changed, unchanged
from foretrace.compare.measure import Sample, measured, sample
from foretrace.compare.sides import RepeatUnit, Side, choose, compare_ops, launch_recorded, side
from foretrace.compare.verdict import HOST_LIMITED, Comparison, judge, likeness, marked_fix
from foretrace.read.ledger import LedgerEntry
from foretrace.read.run_record import MOST_S, NO_RECORD, RecordedRun
from foretrace.trace.opening import opened
from foretrace.trace.trace import Trace

if TYPE_CHECKING:
    from foretrace.look.fixes import Predicted

__all__ = ["Comparison", "compare", "compare_two", "document"]

Entry = TypeVar("Entry", bound=Struct)

# Two processes of one program differ by more than the blocks of one of them, by these shares each:
# where the host takes (almost) all of the time, and elsewhere.
HOST_APART, GPU_APART = 0.15, 0.01


def compare(
    a: Trace | str | os.PathLike[str],
    b: Trace | str | os.PathLike[str],
    *more: Trace | str | os.PathLike[str],
    region: str | None = None,
    compile_seconds: float | None = None,
) -> Comparison:
    """Compare B, and each further trace, with A; a trace may be a path or a recording's name.

    The unit is the call of a region that all of them have, else the step, else the whole trace;
    `region` names one. `compile_seconds` is what the change costs once; without it the run record
    beside the trace gives it. Raises `TraceError` when a trace has no complete event.
    """
    if compile_seconds is not None and not 0 <= compile_seconds <= MOST_S:
        what = f"the change cannot cost {compile_seconds} seconds"
        raise UsageError(f"{what}: give 0 to {MOST_S:.0f}")
    traces = [opened(each) for each in (a, b, *more)]
    for trace in traces:
        if not bool(trace.host.lasting.any()):
            why = "no complete event, so there is nothing to compare"
            hint = "was the profiler stepped, and stopped before the export?"
            raise TraceError("E_NOTHING_TO_COMPARE", trace.path, why, hint=hint)
    unit = choose(traces, region)
    first, *others = (compare_two(traces[0], other, unit, compile_seconds) for other in traces[1:])
    return replace(first, others=tuple(others), published=published_of(*traces))


def compare_two(
    a: Trace, b: Trace, unit: RepeatUnit, compile_seconds: float | None = None
) -> Comparison:
    """Compare the repeats of `unit` in B with those in A."""
    # before the sides: what a replay takes is given back
    steps = [_replayed(trace) if unit.kind == "step" else None for trace in (a, b)]
    launch = launch_recorded(a, b)
    left, right = side(a, unit, launch), side(b, unit, launch)
    runs = [trace.run for trace in (a, b)]
    # a record times the step, which is one call, and the region that it names
    timed = unit.kind == "step" or all(
        unit.kind == "region" and unit.name == run.rung.region for run in runs
    )
    bare = runs if timed else [NO_RECORD, NO_RECORD]
    table, wall = compare_kernels(left.work, right.work), measured(*map(_wall, bare))
    work = work_changes(table, left.gpu.median or 0)
    found = Comparison(
        *(unit, left, right),
        judge(left, right, likeness(table, left.ops, right.ops), wall, work, steps),
        work,
        table,
        compare_ops(left.ops, right.ops),
        gpu_ns=measured(left.gpu, right.gpu),
        cpu_ns=measured(left.cpu, right.cpu),
        wall_ns=measured(left.wall, right.wall),
        idle_ns=measured(left.idle, right.idle),
        bare_wall_ns=wall,
        bare_host_ns=measured(*(Sample(run.timing.host_ns_per_call) for run in bare)),
        cost_s=compile_seconds if compile_seconds is not None else runs[1].compile.seconds,
    )
    mark = marked_fix(*steps)
    return replace(found, changed=changed(found), unchanged=unchanged(found), mark=mark)


def _replayed(trace: Trace) -> Predicted | None:
    from foretrace.look.fixes import predicted  # a region is not replayed

    return predicted(trace)


def _wall(run: RecordedRun) -> Sample:
    """One call without the profiler. Where its blocks are not kept, their range is the spread."""
    wall, spread = run.timing.wall_ns_per_call, run.timing.wall_spread
    if wall is not None and len(run.timing.block_ns) > 1:
        is_host = (run.timing.host_ns_per_call or 0) >= HOST_LIMITED * wall
        return sample(run.timing.block_ns, tick=wall * (HOST_APART if is_host else GPU_APART))
    return Sample(wall, wall * spread if wall is not None and spread is not None else None)


def document(found: Comparison) -> documents.CompareDocument:
    """The contract's document; `others` holds one for each trace after B, compared with A."""
    bare = found.bare_wall_ns.saved is not None
    table = found.kernels
    every = (table.same, table.changed, table.removed, table.added)
    kernels = ([row for row in rows if row.kernel.is_kernel] for rows in every)
    return documents.CompareDocument(
        documents.SCHEMA,
        _trace(found.a),
        _trace(found.b),
        documents.ComparedKernels(*([_kernel(row) for row in rows] for rows in kernels)),
        found.ops,
        [_made(documents.FusionEntry, one) for one in found.kernels.fusions],
        gpu_ns=found.gpu_ns,
        cpu_ns=found.cpu_ns,
        wall_ns=found.wall_ns,
        changed=list(found.changed),
        unchanged=list(found.unchanged),
        worth=found.worth,
        verdict=found.verdict,
        work=[_made(documents.WorkEntry, row) for row in found.work],
        predicted=found.mark or UNSET,
        published=found.published or UNSET,
        bare_wall_ns=found.bare_wall_ns if bare else UNSET,
        bare_host_ns=found.bare_host_ns if bare else UNSET,
        others=[document(other) for other in found.others] or UNSET,
    )


def _trace(side: Side) -> documents.ComparedTrace:
    trace, about, spans = side.trace, side.trace.about, side.trace.spans
    counts = (trace.event_count, len(spans.steps), len(spans.region_groups()))
    unit = (side.unit.kind, side.unit.name or None, len(side.repeats.spans))
    work = (len(side.kernels), side.memcpys, side.memsets, side.launches)
    return documents.ComparedTrace(
        *(trace.path, trace.source, about.device, about.arch, about.rank, *counts),
        ledger=LedgerEntry.of(trace.ledger),
        unit=documents.ComparedUnit(*unit),
        per_unit=documents.UnitCounts(*work, side.idle.median),
    )


def _kernel(row: KernelPair) -> documents.ComparedKernel:
    changed = row.a is not None and row.b is not None and row.why
    return _made(
        documents.ComparedKernel,
        row.kernel,
        a=row.count if row.a else 0,
        b=row.count if row.b else 0,
        median_ns=row.ns,
        to=_made(documents.LaunchedKernel, row.b) if changed else UNSET,
        why=list(row.why) or UNSET,
    )


def _made(entry: type[Entry], found: object, **more: Any) -> Entry:
    """An entry; the comparison has its other fields under the same names."""
    own = (name for name in entry.__struct_fields__ if name not in more)
    return entry(**{name: getattr(found, name) for name in own}, **more)
