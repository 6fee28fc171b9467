"""The kernels of a trace's repeats: what they are, how they were launched, what they cost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from foretrace.comparison.measure import Sample, sample
from foretrace.comparison.repeats import Repeats
from foretrace.model.arguments import json_text
from foretrace.model.costs.matmul import OPERANDS
from foretrace.model.spans import Span
from foretrace.model.trace import Trace
from foretrace.schema import compiled
from foretrace.schema.cost import INEXACT
from foretrace.schema.documents.compare import LaunchConfig

LAUNCH = LaunchConfig.__struct_fields__
IDENTITY = ("name", "short", "family", "role", "op", "op_name", "signature")
COST = ("dur_ns", "flops", "bytes", "bytes_written", "cost_certainty")

Kind = tuple[str, LaunchConfig, str | None]


class Kernel(Struct, frozen=True):
    """One kernel of a typical repeat; `ns` is over every launch of its kind in every repeat.

    `bytes` is the memory traffic of its op, a mere estimate where `estimated`; `alone` when the
    op's call launched no other kernel; `beside_ns` and `beside_bytes` are the memcpys of that call.
    """

    name: str
    short: str
    family: str
    role: str
    op: str | None
    path: tuple[str, ...]
    shapes: str | None
    config: LaunchConfig
    flops: int | None
    bytes: int | None
    written: int | None
    estimated: bool
    ns: Sample
    alone: bool
    beside_ns: float
    beside_bytes: int

    @property
    def kind(self) -> Kind:
        """Two kernels are the same only when these agree."""
        return self.name, self.config, self.shapes


def launch_recorded(a: Trace, b: Trace) -> list[str]:
    """The parts of a launch that both traces record: AMD's have no registers, old ones no grid."""

    def recorded(trace: Trace, part: str) -> bool:
        return bool(trace.kernels[part].count() or not trace.kernels.height)

    return [part for part in LAUNCH if recorded(a, part) and recorded(b, part)]


def launched(
    trace: Trace, found: Repeats, tick_ns: int, launch: Sequence[str]
) -> tuple[Kernel, ...]:
    """The kernels of a typical repeat in launch order; `launch` are the parts that count."""
    is_kernel = trace.gpu.is_kernel
    place = np.cumsum(is_kernel) - 1  # of GPU work among the kernels

    def kernels_of(span: Span) -> list[int]:
        at: list[int] = place[span.work[is_kernel[span.work]]].tolist()
        return at

    rows = trace.kernels.select(*IDENTITY, *LAUNCH, *COST).to_dicts()
    kinds = _kinds(trace, rows, launch)
    lengths: defaultdict[Kind, list[float | None]] = defaultdict(list)
    for span in found.spans:
        for row in kernels_of(span):
            lengths[kinds[row]].append(rows[row]["dur_ns"])
    samples = {kind: sample(values, tick_ns) for kind, values in lengths.items()}
    calls, beside = Counter(row["op"] for row in rows), _beside(trace, found.typical)

    def kernel(row: int) -> Kernel:
        known, (name, config, shapes) = rows[row], kinds[row]
        op = known["op"]
        chain = trace.host.op_chain(op) if op is not None else ()
        return Kernel(
            *(name, known["short"], known["family"], known["role"], known["op_name"]),
            *(tuple(compiled.label(each) for each in chain), shapes, config),
            *(known["flops"], known["bytes"], known["bytes_written"]),
            known["cost_certainty"] in INEXACT,
            samples[kinds[row]],
            calls[op] == 1,
            *beside.get(op, (0, 0)),
        )

    return tuple(kernel(row) for row in kernels_of(found.typical))


def _kinds(trace: Trace, rows: Iterable[Mapping[str, Any]], launch: Sequence[str]) -> list[Kind]:
    """The kind of every kernel; operands and configurations are made once for each distinct one."""
    operands: dict[tuple[str | None, int], str | None] = {}
    kinds = []
    for row in rows:
        form = row["op_name"], row["signature"]
        if form not in operands:
            operands[form] = _operands(*form, trace)
        parts = {part: row[part] for part in launch}
        # grids and blocks are JSON text in the document
        texts = {part: json_text(value) for part, value in parts.items() if type(value) is list}
        kinds.append((row["name"], LaunchConfig(**parts | texts), operands[form]))
    return kinds


def _operands(op: str | None, signature: int, trace: Trace) -> str | None:
    """Sizes and types of an op's operands as text; None when they were not recorded."""
    if signature < 0:
        return None
    found, count = trace.arguments.signatures[signature], OPERANDS.get(op or "")
    return " ".join(json_text(each[:count]) for each in (found.dims, found.types))


def _beside(trace: Trace, span: Span) -> dict[int | None, tuple[float, int]]:
    """Per op call: time and memory traffic of its memcpys; one on the device reads and writes."""
    gpu = trace.gpu
    rows = span.work[gpu.is_memcpy[span.work] & (gpu.op[span.work] >= 0)]
    sizes = dict(trace.copies.select("id", "bytes").iter_rows())
    found: dict[int | None, tuple[float, int]] = {}
    for row in rows.tolist():
        op, event = int(gpu.op[row]), int(gpu.id[row])
        ns, size = found.get(op, (0, 0))
        times = 2 if "DtoD" in trace.host.names[trace.host.name[event]] else 1
        found[op] = ns + int(gpu.length[row]), size + times * int(sizes.get(event) or 0)
    return found
