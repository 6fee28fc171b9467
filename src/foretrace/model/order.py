"""Kernels in launch order, each with its case: the view that most rules work on.

A case is a kernel name with the shapes of the op that launched it. A trace has few cases and many
launches, so a rule looks at cases one by one and at launches as whole arrays.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from msgspec.structs import replace

from foretrace.model.arguments import CalledKernel
from foretrace.model.intervals import Bools, Ints
from foretrace.model.recording import Recording, op_call
from foretrace.names import families
from foretrace.schema.kernel import KernelId

# what a case has of its row of `kernel_cases`
_SAME = "role median_ns flops bytes gbps tflops bound roof_percent limited_by cost_certainty"


class Case(CalledKernel, frozen=True):
    """`count` and `ns` are over the launches that count: those in steps, where there are steps.

    `op` is the (first) op that launched it; flops and bytes are per launch. `roof_percent` is of
    the nearest roof, and `limited_by` says what holds the kernel there or below; "" if nothing is
    known.
    """

    number: int
    id: KernelId
    count: int
    ns: int
    median_ns: float | None
    flops: int | None
    gbps: float | None
    tflops: float | None
    bound: str
    roof_percent: float | None = None
    limited_by: str = ""
    cost_certainty: str = "none"

    @property
    def name(self) -> str:
        """The kernel's name as the trace writes it."""
        return self.id.name


class Order:
    """Kernels by device and stream, and within a stream as launched. Arrays run in parallel.

    `row` is the row of `gpu`, `event` the event id, `case` the number of the case, `chain` the
    number of the op path, `step` the step or -1, `lane` the stream. `counts` says which launches
    count: all, or those in steps where there are any.
    """

    def __init__(self, trace: Recording, kernels: pl.DataFrame, cases: pl.DataFrame) -> None:
        gpu = trace.gpu
        rows = gpu.launch_order[gpu.is_kernel[gpu.launch_order]]
        self._trace, self._kernels, self._cases = trace, kernels, cases
        self.row: Ints = rows[np.argsort(gpu.lane[rows], kind="stable")]
        order = np.cumsum(gpu.is_kernel)[self.row] - 1  # rows of `trace.kernels`
        self.event: Ints = gpu.id[self.row]
        self.length: Ints = gpu.length[self.row]
        self.lane: Ints = gpu.lane[self.row]
        self.step: Ints = trace.spans.step_of_work()[self.row]
        number = np.repeat(np.arange(cases.height), cases["count"].to_numpy())
        case = np.empty(len(number), np.int64)  # of every row of `trace.kernels`
        events = cases["kernels"].explode().to_numpy() if cases.height else np.empty(0, np.int64)
        case[np.searchsorted(kernels["id"].to_numpy(), events)] = number
        self.case: Ints = case[order]
        self.chain: Ints = kernels["chain_id"].to_numpy()[order]
        self.op: Ints = trace.origins.op[self.row]
        self.steps = len({span.index for span in trace.spans.steps if len(span.work)})
        self.counts: Bools = self.step >= 0 if self.steps else np.ones(len(self.row), bool)

    @cached_property
    def cases(self) -> list[Case]:
        """Every case, in the order of `trace.kernel_cases`."""
        frame, size = self._cases, self._cases.height
        mine = self.case[self.counts]
        count = np.bincount(mine, minlength=size).tolist()
        time = np.bincount(mine, weights=self.length[self.counts], minlength=size)
        ns = time.astype(np.int64).tolist()
        first = np.unique(self.case, return_index=True)[1] if size else self.case
        rows = np.searchsorted(self._kernels["id"].to_numpy(), self.event[first])
        moved = self._kernels.select("bytes_read", "bytes_written")[rows].iter_rows(named=True)
        each = zip(frame.iter_rows(named=True), count, ns, moved, strict=True)
        return [
            self._case(row, number=at, count=times, ns=time, **both)
            for at, (row, times, time, both) in enumerate(each)
        ]

    @cached_property
    def case_of_work(self) -> Ints:
        """The case of every row of `gpu`; -1 for memcpys and memsets."""
        found = np.full(len(self._trace.gpu), -1, np.int64)
        found[self.row] = self.case
        return found

    def _case(self, row: dict[str, Any], **counted: Any) -> Case:
        op = row["op"]
        same = {name: row[name] for name in _SAME.split()}
        return Case(
            id=replace(families.decode(row["name"]), short=row["short"]),
            op=row["ops"][0] if row["ops"] else "",
            call=None if op is None else op_call(self._trace, op),
            **same,
            **counted,
        )

    def events_of(self, rows: Bools | Ints) -> Ints:
        """Event ids of these launches, earliest first."""
        return np.sort(self.event[rows])

    def per_step(self, total: float) -> int:
        """A total over the launches that count, per step; without steps, for the recording."""
        return round(total / max(self.steps, 1))
