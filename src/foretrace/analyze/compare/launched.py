"""The GPU work of a trace's repeats: what it is, how it was launched, what it costs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from msgspec import Struct

from foretrace.analyze.compare.measure import Sample, sample
from foretrace.analyze.compare.repeats import Repeats
from foretrace.model.arguments import json_text
from foretrace.model.costs.matmul import OPERANDS
from foretrace.model.trace import Trace
from foretrace.schema import compiled
from foretrace.schema.cost import INEXACT
from foretrace.schema.documents.compare import LaunchConfig

LAUNCH = LaunchConfig.__struct_fields__
IDENTITY = ("id", "name", "short", "family", "role", "op", "op_name", "signature")
COST = ("dur_ns", "flops", "bytes", "bytes_written", "cost_certainty")
COPIES = {"gpu_memcpy": "memcpy", "gpu_memset": "memset"}  # role of work that is no kernel

Kind = tuple[str, LaunchConfig, str | None]


class Kernel(Struct, frozen=True):
    """One kernel, memcpy or memset of a typical repeat. `length_ns` is its own time, `ns` that of
    every launch of its kind.

    `bytes` is its memory traffic as `look` shows it, a mere estimate where `estimated`; `alone`
    when the op's call launched no other kernel. `call` is the op's call, -1 without one; `group`
    is what the model's author would call the work. `origins` are the ops that a generated kernel
    performs, and `sources` its lines, where the compiler's records are beside the trace. `row` is
    its row of `trace.gpu`.
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
    length_ns: int | None = None
    call: int = -1
    group: str = ""
    origins: frozenset[str] = frozenset()
    sources: tuple[str, ...] = ()
    bound: str = ""
    row: int = -1

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
    rows = _rows(trace)
    kinds = _Kinds(trace, launch)
    lengths: defaultdict[Kind, list[float | None]] = defaultdict(list)
    for span in found.spans:
        for at in span.work.tolist():
            lengths[kinds.of(rows[at])].append(rows[at]["dur_ns"])
    samples = {kind: sample(values, tick_ns) for kind, values in lengths.items()}
    call = trace.origins.call
    calls = Counter(call[at] for at, row in enumerate(rows) if row["role"] not in COPIES.values())

    def kernel(at: int) -> Kernel:
        known, kind = rows[at], kinds.of(rows[at])
        (name, config, shapes), op = kind, known["op"]
        chain = trace.origins.host.op_chain(op) if op is not None else ()
        return Kernel(
            *(name, known["short"], known["family"], known["role"], known["op_name"]),
            *(tuple(compiled.label(each) for each in chain), shapes, config),
            *(known["flops"], known["bytes"], known["bytes_written"]),
            known["cost_certainty"] in INEXACT,
            samples[kind],
            known["role"] not in COPIES.values() and calls[call[at]] == 1,
            known["dur_ns"],
            int(call[at]),
            str(trace.work_groups[at]),
            *_origin(trace, known["id"]),
            str(trace.work_bounds[at]),
            at,
        )

    return tuple(kernel(at) for at in found.typical.work.tolist())


def _origin(trace: Trace, event: int) -> tuple[frozenset[str], tuple[str, ...]]:
    """The ops that a compiled kernel performs and the lines they are on, as recorded."""
    launch = trace.compiled.get(event)
    if launch is None:
        return frozenset(), ()
    from foretrace.model.compiled.program_ops import begun, performed

    ops = frozenset() if launch.call.extern else performed(launch) | begun(launch)
    return ops, tuple(dict.fromkeys(line.place for line in launch.lines))


def _rows(trace: Trace) -> list[dict[str, Any]]:
    """One row for each row of `trace.gpu`; memcpys and memsets have a role of their own."""
    kernels = trace.kernels.select(*IDENTITY, *LAUNCH, *COST)
    role = pl.col("kind").replace_strict(COPIES, default="memcpy", return_dtype=pl.String)
    size = pl.col("bytes")
    both_ways = pl.when(pl.col("name").str.contains("DtoD")).then(2).otherwise(1)
    copies = trace.copies.select(
        "id",
        "name",
        "op",
        "op_name",
        "dur_ns",
        pl.col("name").alias("short"),
        pl.lit("").alias("family"),
        role.alias("role"),
        (size * both_ways).alias("bytes"),
        size.alias("bytes_written"),
    )
    every = pl.concat([kernels, copies], how="diagonal_relaxed")
    return every.sort("id").to_dicts()


class _Kinds:
    """The kind of every row; operands are made once for each distinct signature."""

    def __init__(self, trace: Trace, launch: Sequence[str]) -> None:
        self.trace, self.launch = trace, launch
        self.operands: dict[tuple[str | None, int], str | None] = {}
        self.known: dict[int, Kind] = {}

    def of(self, row: Mapping[str, Any]) -> Kind:
        event = row["id"]
        if event not in self.known:
            self.known[event] = self._kind(row)
        return self.known[event]

    def _kind(self, row: Mapping[str, Any]) -> Kind:
        if row["role"] in COPIES.values():
            return row["name"], LaunchConfig(), str(row["bytes"])
        form = row["op_name"], row["signature"]
        if form not in self.operands:
            self.operands[form] = self._operands(*form)
        parts = {part: row[part] for part in self.launch}
        # grids and blocks are JSON text in the document
        texts = {part: json_text(value) for part, value in parts.items() if type(value) is list}
        return row["name"], LaunchConfig(**parts | texts), self.operands[form]

    def _operands(self, op: str | None, signature: int) -> str | None:
        """Sizes and types of an op's operands as text; None when they were not recorded."""
        if signature < 0:
            return None
        found, count = self.trace.origins.arguments.signatures[signature], OPERANDS.get(op or "")
        return " ".join(json_text(each[:count]) for each in (found.dims, found.types))
