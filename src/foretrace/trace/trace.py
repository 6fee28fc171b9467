"""`Trace`: what a user has of one recording."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from foretrace.base.display import Viewed
from foretrace.base.files import replacing
from foretrace.trace.analysis import Analysis
from foretrace.trace.kernel_rows import kernel_rows
from foretrace.trace.modules import Modules
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
