"""`Trace`: what a user has of one recording.

`kernel_rows` are the rows of `kernel_cases` with what only the whole trace knows of each: modules,
lines, launches in steps, and the peak that a kernel counts against.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import convert

from foretrace.base.display import Viewed
from foretrace.base.files import replacing
from foretrace.trace.analysis import Analysis
from foretrace.trace.arguments import json_text
from foretrace.trace.flame import lines_of_cases, recorded_lines
from foretrace.trace.metadata import device_of
from foretrace.trace.module_calls import PREFIX
from foretrace.trace.modules import Modules
from foretrace.trace.recording import op_call
from foretrace.trace.roofs import dtype_of
from foretrace.work import families
from foretrace.work.costs.limits import peak_name
from foretrace.work.costs.matmul import OPERANDS
from foretrace.work.kernel_row import KernelRow

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class Trace(Analysis, Viewed):
    """One trace. Tables are Polars frames, made at first use; `ledger` says what was repaired or
    skipped.

    `events` has one row per record, with parent, depth and step. `kernels` has one row per kernel
    launch, with op and step; `copies` has the same for memcpys and memsets. `ops` has one row per
    call of an op. `steps`, `regions` and `tracks` have one row each.
    """

    def __repr__(self) -> str:
        return (
            f"<Trace {self.path!r}: {self.event_count:,} events, "
            f"{int(self.gpu.is_kernel.sum()):,} kernels, "
            f"{len(self.spans.steps)} steps, {self.about.device or 'no GPU named'}>"
        )

    @cached_property
    def kernel_rows(self) -> list[KernelRow]:
        """The kernels by name and shapes, in the order of `kernel_cases`."""
        return kernel_rows(self)

    @cached_property
    def modules(self) -> Modules:
        """The nn.Modules and what was launched in them, where the profiler recorded them."""
        return Modules(self)

    def to_pandas(self, table: str = "events") -> pd.DataFrame:
        """A table as a pandas frame (needs `pip install 'foretrace[pandas]'`)."""
        return self.table(table).to_pandas()

    def to_arrow(self, table: str = "events") -> pa.Table:
        """A table as an Arrow table."""
        return self.table(table).to_arrow()

    def write_parquet(self, folder: str | Path) -> list[Path]:
        """Every table as `folder/NAME.parquet`; returns what was written."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        written = []
        for name in self.table_names():
            written.append(target / f"{name}.parquet")
            with replacing(written[-1]) as draft:
                self.table(name).write_parquet(draft)
        return written


def kernel_rows(trace: Analysis) -> list[KernelRow]:
    """Every kernel, in the order of `trace.kernel_cases`."""
    order, host, device = trace.order, trace.origins.host, device_of(trace.about)
    frame, size = trace.kernel_cases, trace.kernel_cases.height
    inside, steps, shapes = order.step >= 0, len(trace.spans.steps), operands_text(trace)
    in_steps_ns = np.bincount(order.case[inside], order.length[inside], size).astype(np.int64)
    first = np.unique(order.case, return_index=True)[1] if size else order.case
    at = np.searchsorted(trace.kernels["id"].to_numpy(), order.event[first])
    moved = trace.kernels.select("bytes_read", "bytes_written")[at].iter_rows(named=True)
    columns = modules_of_cases(trace), lines_of_cases(trace), recorded_lines(trace)
    cases = frame.iter_rows(named=True)
    rows = list[KernelRow]()
    for case, both, ns, *places in zip(cases, moved, in_steps_ns.tolist(), *columns, strict=True):
        op, kernel, median = case["op"], families.decode(case["name"]), case["median_ns"]
        precision = peak_name(device, dtype_of(case, kernel), kernel.get("tensor_core"))
        known = device is not None and precision in device.peak_flops
        own = {
            "fields": dict(kernel.fields),
            "number": len(rows),
            "in_steps": case["in_steps"] if order.steps else None,
            "per_step": per_call(case["in_steps"], steps) if steps else None,
            "total_ns": case["total_ns"] if case["timed"] else None,
            "in_steps_ns": ns if order.steps and case["timed"] else None,
            "median_ns": int(median) if median is not None and median == int(median) else median,
            "chain": list(host.op_chain(op)) if op is not None else [],
            "shapes": shapes(case["ops"][0] if case["ops"] else "", case["signature"]),
            "precision": precision if known else "",
            **both,
            **dict(zip(("modules", "source", "sources"), places, strict=True)),
        }
        row = convert(case | own, KernelRow)
        rows.append(row.with_call(None if op is None else op_call(trace, op)))
    return rows


def per_call(count: int, calls: int) -> int | float:
    """A mean count, whole where it is whole."""
    return count // calls if count % calls == 0 else round(count / calls, 3)


def operands_text(trace: Analysis) -> Callable[[str, int], str | None]:
    """Sizes and types of an op's operands, by op and signature; None where none were recorded."""
    signatures = trace.origins.arguments.signatures

    @cache
    def text(op: str, signature: int) -> str | None:
        if signature < 0:
            return None
        form, count = signatures[signature], OPERANDS.get(op)
        return " ".join(json_text(each[:count]) for each in (form.dims, form.types))

    return text


def modules_of_cases(trace: Analysis) -> list[list[str]]:
    """For every row of `kernel_cases`, the modules that it belongs to, in order of first launch."""
    found: list[dict[str, None]] = [{} for _ in range(trace.kernel_cases.height)]
    if not trace.module_calls.is_module.any():
        return [[] for _ in found]
    order, host, own = trace.order, trace.origins.host, trace.module_calls.owners.call
    inside = own[order.row] >= 0
    case, name = order.case[inside], host.name[own[order.row[inside]]]
    _, first = np.unique(case * len(host.names) + name, return_index=True)
    for at in np.sort(first).tolist():
        found[case[at]][host.names[name[at]].removeprefix(PREFIX)] = None
    return [list(names) for names in found]
