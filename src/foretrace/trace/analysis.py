"""`Analysis`: a recording with everything that is worked out from it, made at first use.

Each property calls one module. Modules take what they need, a `Recording` or values from here, so
that they import each other in one direction. Those that need several of these values take an
`Analysis`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from foretrace.base.arrays import with_gaps
from foretrace.read.tables import KINDS, TABLES
from foretrace.trace import collectives, groups, idle, kernels, serving
from foretrace.trace.groups import Grouped
from foretrace.trace.host import step_number
from foretrace.trace.idle import Gaps, Idle, Spent
from foretrace.trace.intervals import Ints
from foretrace.trace.kernels import Order, work_table
from foretrace.trace.module_calls import ModuleCalls, names_outside
from foretrace.trace.recording import Recording, work_below
from foretrace.trace.serving import Served

# tables that a property makes; the others are as the source gave them
_OWN = (
    "events", "kernels", "copies", "ops", "steps", "regions", "tracks", "shapes", "collectives",
)  # fmt: skip
_WORD = np.dtypes.StringDType()  # a quarter of what a fixed width takes


class Analysis(Recording):
    """The tables of a recording, and what each row of `gpu` is."""

    @cached_property
    def kernels(self) -> pl.DataFrame:
        """One row per GPU kernel, with what its name says and what its op must cost."""
        return kernels.described(self)

    @cached_property
    def kernel_cases(self) -> pl.DataFrame:
        """Kernels grouped by name and the shapes of their op."""
        return kernels.grouped(self, self.kernels)

    @cached_property
    def order(self) -> Order:
        """Kernels in the order of their launches, each with its case."""
        return Order(self, self.kernels, self.kernel_cases)

    @cached_property
    def collectives(self) -> pl.DataFrame:
        """Collectives by message size and group, with the bandwidth that they reached."""
        return collectives.collectives(self, self.kernels)

    @cached_property
    def work_below(self) -> Ints:
        """For every event: how much GPU work it launched, itself or through what it called."""
        return work_below(self)

    @cached_property
    def work_roles(self) -> NDArray[Any]:
        """The role of every row of `gpu`; copies and fills have the role `copy`."""
        roles = np.full(len(self.gpu), "copy", _WORD)
        roles[self.gpu.is_kernel] = self.kernels["role"].to_numpy()
        return roles

    @cached_property
    def work_bounds(self) -> NDArray[Any]:
        """The bound of every row of `gpu`: that of its case; memcpys and memsets are `copy`."""
        bounds = np.full(len(self.gpu), "copy", _WORD)
        bounds[self.order.row] = self.kernel_cases["bound"].to_numpy()[self.order.case]
        return bounds

    @cached_property
    def module_calls(self) -> ModuleCalls:
        """The calls of nn.Modules, where the profiler recorded them."""
        return ModuleCalls(self)

    @cached_property
    def served(self) -> Served:
        """The batches of a serving engine, where it annotated them."""
        return serving.served(self.spans)

    @cached_property
    def grouped(self) -> Grouped:
        """The group of every row of `gpu`, and which of its calls the row belongs to."""
        return groups.found(self, self.module_calls)

    @cached_property
    def outside_modules(self) -> list[str]:
        """What every row of `gpu` that no module owns is called; "" for the others."""
        return names_outside(self.module_calls.owners, self.grouped.names, self.grouped.group)

    @cached_property
    def work_groups(self) -> NDArray[Any]:
        """What the model's author would call every row of `gpu`: GEMM, RMSNorm, attention."""
        return self.grouped.text

    @cached_property
    def gaps(self) -> Gaps:
        """When each device was not busy, over the whole recording, and why."""
        return Gaps(self)

    @cached_property
    def idle(self) -> Idle:
        """The gaps inside the steps."""
        return idle.find(self, self.gaps)

    @cached_property
    def spent(self) -> dict[tuple[int, ...], Spent | None]:
        """The time of steps and calls that was requested; see `bounds.spent`."""
        return {}

    @cached_property
    def events(self) -> pl.DataFrame:
        """One row per record, with kind, name, parent, depth and step."""
        parent, step = self.host.parent, self.spans.step_of_events()
        kept = self.tables["events"]
        kinds = pl.Series("kind", KINDS, dtype=pl.String)
        names = pl.Series("name", self.host.names, dtype=pl.String)
        return pl.DataFrame(
            [
                pl.Series("id", np.arange(self.host.count, dtype=np.int64)),
                kept["ts_ns"],
                kept["dur_ns"],
                kinds[kept["kind_id"]],
                names[kept["name_id"]],
                *kept.drop("ts_ns", "dur_ns", "kind_id", "name_id"),
                with_gaps(parent, parent >= 0, "parent"),
                pl.Series("depth", self.host.depth),
                with_gaps(step, step >= 0, "step"),
            ]
        )

    @cached_property
    def copies(self) -> pl.DataFrame:
        """One row per memcpy and memset."""
        return work_table(self, ~self.gpu.is_kernel)

    @cached_property
    def ops(self) -> pl.DataFrame:
        """One row per call of a host op: self and total time, shapes where they were recorded."""
        host = self.host
        rows = np.flatnonzero(host.is_op & host.lasting)
        frame = pl.DataFrame(
            {
                "id": rows,
                "name": pl.Series(host.names, dtype=pl.String)[host.name[rows]],
                "ts_ns": host.start[rows],
                "dur_ns": host.length[rows],
                "self_ns": host.self_length[rows],
                "parent": with_gaps(host.parent[rows], host.parent[rows] >= 0),
                "depth": host.depth[rows],
                "track": host.track[rows],
            }
        )
        shapes = self.shapes.rename({"event": "id"})
        return frame.join(shapes, on="id", how="left", maintain_order="left")

    @cached_property
    def shapes(self) -> pl.DataFrame:
        """One row per event with recorded arguments, as lists."""
        shapes = self.tables["shapes"]
        return shapes.hstack(self.tables["signatures"][shapes["signature"]])

    @cached_property
    def steps(self) -> pl.DataFrame:
        """One row per profiler step."""
        rows = [
            (span.index, span.name, step_number(span.name), span.event, span.start_ns, span.cpu_ns)
            for span in self.spans.steps
        ]
        return _frame("index name number id ts_ns cpu_ns", rows)

    @cached_property
    def regions(self) -> pl.DataFrame:
        """One row per call of a region."""
        is_kernel = self.gpu.is_kernel
        rows = [
            (span.name, span.event, span.start_ns, span.cpu_ns, int(is_kernel[span.work].sum()))
            for span in self.spans.regions
        ]
        return _frame("name id ts_ns cpu_ns kernels", rows)

    @property
    def tracks(self) -> pl.DataFrame:
        """One row per thread or stream."""
        return self.tables["tracks"]

    def table(self, name: str) -> pl.DataFrame:
        """Any table by name, as the query box of `serve` sees them."""
        frame: pl.DataFrame = getattr(self, name) if name in _OWN else self.tables[name]
        return frame

    def table_names(self) -> list[str]:
        """The names that `table` takes."""
        return [*_OWN, *(name for name in TABLES if name not in _OWN)]


def _frame(columns: str, rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    kinds = {name: pl.String if name == "name" else pl.Int64 for name in columns.split()}
    return pl.DataFrame(rows, kinds, orient="row")
