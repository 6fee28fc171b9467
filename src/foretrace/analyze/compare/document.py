"""A comparison as the document of `foretrace compare --json`."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import UNSET, Struct

from foretrace.analyze.compare.fusion import KernelPair
from foretrace.analyze.compare.sides import Side
from foretrace.analyze.compare.verdict import Comparison
from foretrace.schema.documents import compare as documents
from foretrace.schema.ledger import LedgerEntry

SCHEMA = 1
Entry = TypeVar("Entry", bound=Struct)


def document(found: Comparison) -> documents.CompareDocument:
    """The contract's document; `others` holds one for each trace after B, compared with A."""
    bare = found.bare_wall_ns.saved is not None
    table = found.kernels
    every = (table.same, table.changed, table.removed, table.added)
    kernels = ([row for row in rows if row.kernel.is_kernel] for rows in every)
    return documents.CompareDocument(
        SCHEMA,
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
        to=_made(documents.KernelEntry, row.b) if changed else UNSET,
        why=list(row.why) or UNSET,
    )


def _made(entry: type[Entry], found: object, **more: Any) -> Entry:
    """An entry; the comparison has its other fields under the same names."""
    own = (name for name in entry.__struct_fields__ if name not in more)
    return entry(**{name: getattr(found, name) for name in own}, **more)
