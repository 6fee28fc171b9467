"""The kernels of a trace's repeats, as a comparison sees them: what they are, how they were
launched, what they cost.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from foretrace.comparison.measure import Sample, sample
from foretrace.comparison.repeats import Repeats
from foretrace.model.arguments import json_text
from foretrace.model.costs.matmul import OPERANDS
from foretrace.model.spans import Span
from foretrace.model.trace import Trace
from foretrace.schema import compiled
from foretrace.schema.cost import INEXACT


@dataclass(frozen=True, slots=True)
class Config:
    """How a kernel was launched; None where the trace, or the other one, does not say."""

    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    registers: int | None = None
    shared_memory: int | None = None


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel of a typical repeat. `ns` and `spread` are over every launch of its kind in every
    repeat.

    `bytes` is what its op must move, a mere estimate where `estimated`; `alone` when its op's call
    launched no other kernel; `beside_ns` and `beside_bytes` are the copies that the same call made.
    """

    name: str
    short: str
    family: str
    role: str
    op: str | None
    path: tuple[str, ...]
    shapes: str | None
    config: Config
    flops: int | None
    bytes: int | None
    written: int | None
    estimated: bool
    ns: Sample
    alone: bool
    beside_ns: float
    beside_bytes: int

    @property
    def kind(self) -> tuple[str, Config, str | None]:
        """Two kernels are the same only when these agree."""
        return self.name, self.config, self.shapes


def launch_recorded(a: Trace, b: Trace) -> list[str]:
    """The parts of a launch that both traces record: AMD's have no registers, old ones no grid."""
    names = [field.name for field in fields(Config)]
    return [
        name
        for name in names
        if all(trace.kernels[name].count() or not trace.kernels.height for trace in (a, b))
    ]


def launched(
    trace: Trace, found: Repeats, tick_ns: int, launch: Sequence[str]
) -> tuple[Kernel, ...]:
    """The kernels of a typical repeat, in launch order, timed over all repeats."""
    return _Kernels(trace, found, tick_ns, launch).typical()


class _Kernels:
    """The kernels of the repeats of one trace."""

    def __init__(self, trace: Trace, found: Repeats, tick_ns: int, launch: Sequence[str]) -> None:
        self.trace, self.found, self.tick_ns, self.launch = trace, found, tick_ns, launch
        self.rows = trace.kernels.select(
            "name",
            "short",
            "family",
            "role",
            "op",
            "op_name",
            "grid",
            "block",
            "registers",
            "shared_memory",
            "dur_ns",
            "signature",
            "flops",
            "bytes",
            "bytes_written",
            "cost_certainty",
        ).to_dicts()
        self.calls = Counter(row["op"] for row in self.rows)
        self.at = np.cumsum(trace.gpu.is_kernel) - 1
        self.operands: dict[tuple[str | None, int], str | None] = {}

    def typical(self) -> tuple[Kernel, ...]:
        lengths: defaultdict[tuple[Any, ...], list[float | None]] = defaultdict(list)
        for span in self.found.spans:
            for row in self._of(span):
                lengths[self._kind(row)].append(self.rows[row]["dur_ns"])
        samples = {kind: sample(values, self.tick_ns) for kind, values in lengths.items()}
        beside = _beside(self.trace, self.found.typical)
        return tuple(
            self._kernel(row, samples[self._kind(row)], beside)
            for row in self._of(self.found.typical)
        )

    def _of(self, span: Span) -> list[int]:
        return [int(row) for row in self.at[span.work[self.trace.gpu.is_kernel[span.work]]]]

    def _kind(self, row: int) -> tuple[str, Config, str | None]:
        found = self.rows[row]
        form = found["op_name"], found["signature"]
        if form not in self.operands:
            self.operands[form] = _operands(*form, self.trace)
        return (
            found["name"],
            Config(**{name: _frozen(found[name]) for name in self.launch}),
            self.operands[form],
        )

    def _kernel(self, row: int, ns: Sample, beside: Mapping[int, tuple[float, int]]) -> Kernel:
        found, (name, config, shapes) = self.rows[row], self._kind(row)
        op = found["op"]
        path = (
            tuple(compiled.label(each) for each in self.trace.host.op_chain(op))
            if op is not None
            else ()
        )
        copied_ns, copied_bytes = beside.get(op, (0, 0)) if op is not None else (0, 0)
        return Kernel(
            name,
            found["short"],
            found["family"],
            found["role"],
            found["op_name"],
            path,
            shapes,
            config,
            found["flops"],
            found["bytes"],
            found["bytes_written"],
            found["cost_certainty"] in INEXACT,
            ns,
            self.calls[op] == 1,
            copied_ns,
            copied_bytes,
        )


def _operands(op: str | None, signature: int, trace: Trace) -> str | None:
    """Sizes and types of an op's arguments, as the trace writes them; None when they were not
    recorded.
    """
    if signature < 0:
        return None
    found, count = trace.arguments.signatures[signature], OPERANDS.get(op or "")
    return " ".join(json_text(each[:count]) for each in (found.dims, found.types))


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _beside(trace: Trace, span: Span) -> dict[int, tuple[float, int]]:
    """Per op call: time and bytes of the memcpys it made; a copy on the card reads and writes what
    it moves.
    """
    gpu = trace.gpu
    rows = span.work[gpu.is_memcpy[span.work] & (gpu.op[span.work] >= 0)]
    moved = dict(zip(trace.copies["id"].to_list(), trace.copies["bytes"].to_list(), strict=True))
    found: dict[int, tuple[float, int]] = {}
    for row in rows.tolist():
        op, name = int(gpu.op[row]), trace.host.names[trace.host.name[gpu.id[row]]]
        ns, size = found.get(op, (0, 0))
        times = 2 if "DtoD" in name else 1
        found[op] = ns + int(gpu.length[row]), size + times * int(moved.get(int(gpu.id[row])) or 0)
    return found
