"""`Trace`: one recording as tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from foretrace.base.files import replacing
from foretrace.model.about import About, about, device_of
from foretrace.model.arguments import Arguments
from foretrace.model.captures import Captured, nothing
from foretrace.model.compiled import CompilerRecords
from foretrace.model.gpu import Gpu
from foretrace.model.host import Host, step_number
from foretrace.model.origins import WorkOrigins
from foretrace.model.spans import Spans
from foretrace.schema.display import Viewed
from foretrace.schema.gaps import with_gaps
from foretrace.schema.ledger import LedgerBuilder
from foretrace.schema.run_record import RecordedRun, read_run
from foretrace.schema.tables import KINDS, TABLES, Tables

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray

    from foretrace.model.bounds import Spent
    from foretrace.model.covered import Covered
    from foretrace.model.groups import Grouped
    from foretrace.model.idle import Gaps, Idle
    from foretrace.model.modules import Modules
    from foretrace.model.order import Order
    from foretrace.model.serving import Served
    from foretrace.schema.compiler import CompiledLaunch, CompilerRun


# tables that a property makes; the others are as the source gave them
_OWN = (
    "events", "kernels", "copies", "ops", "steps", "regions", "tracks", "shapes", "collectives",
)  # fmt: skip
_WORD = np.dtypes.StringDType()  # a quarter of what a fixed width takes


class Trace(Viewed):
    """One trace. Tables are Polars frames, made at first use; `ledger` says what was repaired or
    skipped.

    `events` has one row per record, with parent, depth and step. `kernels` has one row per kernel
    launch, with op and step; `copies` has the same for memcpys and memsets. `ops` has one row per
    call of an op. `steps`, `regions` and `tracks` have one row each.
    """

    def __init__(self, tables: Tables, path: str) -> None:
        self.tables, self.path, self.source = tables, path, tables.source
        notes = LedgerBuilder()
        self.about: About = about(tables.header, path, notes)
        self.host = Host(tables, notes)
        self.gpu = Gpu(tables, self.host, notes)
        self.spans = Spans(self.host, self.gpu)
        self.spent: dict[tuple[int, ...], Spent | None] = {}  # of steps and calls; see `bounds`
        self.captures: tuple[Trace, ...] = ()  # recorded while the graphs replayed here were made
        self.captured: Captured = nothing(len(self.gpu))
        self._note_contents(notes)
        self.ledger = tables.ledger.with_notes(notes.freeze().notes)

    def __repr__(self) -> str:
        return (
            f"<Trace {self.path!r}: {self.event_count:,} events, "
            f"{int(self.gpu.is_kernel.sum()):,} kernels, "
            f"{len(self.spans.steps)} steps, {self.about.device or 'no GPU named'}>"
        )

    @property
    def event_count(self) -> int:
        """Records seen in the file, repaired and skipped ones included."""
        return self.ledger.seen

    def _note_contents(self, notes: LedgerBuilder) -> None:
        if not bool(self.host.lasting.any()):
            notes.note("no_complete_events")
        elif not self.spans.steps:
            notes.note("no_steps")
        notes.note("regions_left_out", self.spans.left_out)
        ranks, world = len(self.tables.merged), self.about.world_size or 0
        if ranks > 1:
            text = f"{ranks} of {world} ranks are in this merged file"
            notes.note("rank_missing", max(world - ranks, 0), text)
        if self.about.device and len(self.gpu) and device_of(self.about) is None:
            text = f"peaks of {self.about.device!r} are not known: no roofline for its kernels"
            notes.note("unknown_device", text=text)
        if not self.host.count:
            notes.counts.pop("no_gpu_events", None)

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
    def run(self) -> RecordedRun:
        """The run record beside the file: times without the profiler."""
        return read_run(self.path)

    @cached_property
    def compiler_records(self) -> CompilerRecords:
        """The compiler's records beside the file, read at first use."""
        parts = (self.tables, self.host, self.gpu, self.arguments, self.about.rank)
        return CompilerRecords(self.path, *parts)

    @property
    def compiler_run(self) -> CompilerRun | None:
        """What the compiler's records say; None where there are none that can be read."""
        return self.compiler_records.run

    @cached_property
    def compiled(self) -> Mapping[int, CompiledLaunch]:
        """By event: the call of compiled code that made it, where the compiler left records."""
        return self.compiler_records.by_event()

    @cached_property
    def origins(self) -> WorkOrigins:
        """The launch and op of every row of `gpu`, here or in a capture."""
        return WorkOrigins(self)

    @cached_property
    def arguments(self) -> Arguments:
        """The recorded arguments of op calls."""
        return Arguments(self.tables)

    @cached_property
    def kernels(self) -> pl.DataFrame:
        """One row per GPU kernel, with what its name says and what its op must cost."""
        from foretrace.model.kernels import described

        return described(self)

    @cached_property
    def kernel_cases(self) -> pl.DataFrame:
        """Kernels grouped by name and the shapes of their op."""
        from foretrace.model.kernels import grouped

        return grouped(self)

    @cached_property
    def collectives(self) -> pl.DataFrame:
        """Collectives by message size and group, with the bandwidth that they reached."""
        from foretrace.model.collectives import collectives

        return collectives(self)

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
        order = self.order
        bounds[order.row] = self.kernel_cases["bound"].to_numpy()[order.case]
        return bounds

    @cached_property
    def modules(self) -> Modules:
        """The nn.Modules and what was launched in them, where the profiler recorded them."""
        from foretrace.model.modules import Modules

        return Modules(self)

    @cached_property
    def served(self) -> Served:
        """The batches of a serving engine, where it annotated them."""
        from foretrace.model.serving import served

        return served(self)

    @cached_property
    def grouped(self) -> Grouped:
        """The group of every row of `gpu`, and which of its calls the row belongs to."""
        from foretrace.model.groups import found

        return found(self)

    @cached_property
    def work_groups(self) -> NDArray[Any]:
        """What the model's author would call every row of `gpu`: GEMM, RMSNorm, attention."""
        return self.grouped.text

    @cached_property
    def order(self) -> Order:
        """Kernels in the order of their launches, each with its case."""
        from foretrace.model.order import Order

        return Order(self)

    @cached_property
    def busy(self) -> tuple[Covered, ...]:
        """When each device was busy, in the order of `gpu.device_number`."""
        from foretrace.model.idle import busy_by_device

        return busy_by_device(self)

    @cached_property
    def gaps(self) -> Gaps:
        """When each was not, over the whole recording, and why."""
        from foretrace.model.idle import Gaps

        return Gaps(self)

    @cached_property
    def idle(self) -> Idle:
        """The gaps inside the steps."""
        from foretrace.model.idle import find

        return find(self)

    @cached_property
    def copies(self) -> pl.DataFrame:
        """One row per memcpy and memset."""
        from foretrace.model.work import work_table

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
        kernels = self.gpu.is_kernel
        rows = [
            (span.name, span.event, span.start_ns, span.cpu_ns, int(kernels[span.work].sum()))
            for span in self.spans.regions
        ]
        return _frame("name id ts_ns cpu_ns kernels", rows)

    @cached_property
    def tracks(self) -> pl.DataFrame:
        """One row per thread or stream."""
        return self.tables["tracks"]

    def table(self, name: str) -> pl.DataFrame:
        """Any table by name, as `sql` sees them."""
        frame: pl.DataFrame = getattr(self, name) if name in _OWN else self.tables[name]
        return frame

    def table_names(self) -> list[str]:
        """The names that `table` and `sql` take."""
        return [*_OWN, *(name for name in TABLES if name not in _OWN)]

    def sql(self, query: str) -> pl.DataFrame:
        """Run one SQL query over the tables; see `table_names`."""
        from foretrace.model.query import run

        return run(self, query)

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

    def has(self, what: str) -> bool:
        """Whether there are `shapes`, `gpu`, `steps`, `stacks`, `memory`, `regions` or `comms`."""
        if what == "gpu":
            return len(self.gpu) > 0
        if what == "steps":
            return bool(self.spans.steps)
        if what == "regions":
            return bool(self.spans.regions)
        tables = self.origins.tables
        if what == "stacks":
            return tables["frames"].height > 0 or tables["stacks"].height > 0
        return tables[what].height > 0


def _frame(columns: str, rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    kinds = {name: pl.String if name == "name" else pl.Int64 for name in columns.split()}
    return pl.DataFrame(rows, kinds, orient="row")
