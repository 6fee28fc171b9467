"""A comparison as the document of `foretrace compare --json`."""

from __future__ import annotations

from msgspec import UNSET

from foretrace.comparison.comparison import Comparison
from foretrace.comparison.fusion import Fusion
from foretrace.comparison.kernels import KernelPair, KernelTable
from foretrace.comparison.launched import Kernel
from foretrace.comparison.measure import Change
from foretrace.comparison.ops import OpPair, OpTable
from foretrace.comparison.side import Side
from foretrace.schema.documents import compare as documents
from foretrace.schema.documents.compare import LaunchConfig
from foretrace.schema.documents.look import LedgerEntry

SCHEMA = 1


def document(found: Comparison) -> documents.CompareDocument:
    """The contract's document; `others` holds one for each trace after B, compared with A."""
    bare = found.bare_wall_ns.saved is not None
    return documents.CompareDocument(
        SCHEMA,
        _trace(found.a),
        _trace(found.b),
        _kernels(found.kernels),
        _ops(found.ops),
        [_fusion(fusion) for fusion in found.kernels.fusions],
        gpu_ns=_change(found.gpu_ns),
        cpu_ns=_change(found.cpu_ns),
        wall_ns=_change(found.wall_ns),
        changed=list(found.changed),
        unchanged=list(found.unchanged),
        worth=found.worth,
        bare_wall_ns=_change(found.bare_wall_ns) if bare else UNSET,
        bare_host_ns=_change(found.bare_host_ns) if bare else UNSET,
        others=[document(other) for other in found.others] or UNSET,
    )


def _trace(side: Side) -> documents.ComparedTrace:
    trace, about, spans = side.trace, side.trace.about, side.trace.spans
    return documents.ComparedTrace(
        trace.path,
        trace.source,
        about.device,
        about.arch,
        about.rank,
        events=trace.event_count,
        steps=len(spans.steps),
        regions=len(spans.region_groups()),
        ledger=LedgerEntry.of(trace.ledger),
        unit=documents.ComparedUnit(
            side.unit.kind, side.unit.name or None, len(side.repeats.spans)
        ),
        per_unit=documents.UnitCounts(
            len(side.kernels), side.memcpys, side.memsets, side.launches, side.idle.median
        ),
    )


def _change(value: Change) -> documents.ChangeEntry:
    return documents.ChangeEntry(value.a, value.b, value.ratio, value.noise)


def _kernels(table: KernelTable) -> documents.ComparedKernels:
    every = (table.same, table.changed, table.removed, table.added)
    return documents.ComparedKernels(*([_kernel(row) for row in rows] for rows in every))


def _kernel(row: KernelPair) -> documents.ComparedKernel:
    changed = row.a is not None and row.b is not None and row.why
    return documents.ComparedKernel(
        *_identity(row.kernel),
        a=row.count if row.a else 0,
        b=row.count if row.b else 0,
        median_ns=_change(row.ns),
        to=documents.KernelEntry(*_identity(row.b)) if row.b and changed else UNSET,
        why=list(row.why) or UNSET,
    )


def _identity(kernel: Kernel) -> tuple[str, str, str, str | None, str | None, LaunchConfig]:
    return kernel.name, kernel.short, kernel.role, kernel.op, kernel.shapes, kernel.config


def _ops(table: OpTable) -> documents.ComparedOps:
    every = (table.removed, table.added, table.same)
    return documents.ComparedOps(*([_op(row) for row in rows] for rows in every))


def _op(row: OpPair) -> documents.ComparedOp:
    self_cpu = documents.TimePair(row.a_ns, row.b_ns)
    gpu = documents.TimePair(row.a_gpu_ns, row.b_gpu_ns)
    return documents.ComparedOp(row.name, row.a, row.b, self_cpu, gpu)


def _fusion(fusion: Fusion) -> documents.FusionEntry:
    return documents.FusionEntry(
        fusion.kernel,
        fusion.backend,
        list(fusion.replaces),
        fusion.bytes_saved,
        fusion.ns_saved,
        fusion.count,
        fusion.sign,
    )
