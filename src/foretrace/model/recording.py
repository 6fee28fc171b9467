"""`Recording`: one trace as its file has it, with launches linked to GPU work.

Every analysis of this package takes a `Recording`, or an `Analysis`, which adds what is worked out
from it. None of them knows `Trace`, the public face on top.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from foretrace.model.arguments import Arguments
from foretrace.model.captures import Captured, nothing
from foretrace.model.compiled import CompiledTrace
from foretrace.model.gpu import Gpu
from foretrace.model.host import Host
from foretrace.model.metadata import About, about, device_of
from foretrace.model.oddities import note_oddities
from foretrace.model.origins import WorkOrigins
from foretrace.model.spans import Spans
from foretrace.schema.ledger import LedgerBuilder
from foretrace.schema.run_record import RecordedRun, read_run
from foretrace.schema.tables import Tables

if TYPE_CHECKING:
    from foretrace.model.costs import OpCall
    from foretrace.schema.compiler import CompiledLaunch, CompilerRun


class Recording:
    """`tables` are those of the source; `host`, `gpu` and `spans` are arrays over them.

    `captures` are the traces that were recorded while the CUDA graphs replayed here were captured,
    and `captured` says which row of `gpu` has its launch in which of them.
    """

    def __init__(self, tables: Tables, path: str) -> None:
        self.tables, self.path, self.source = tables, path, tables.source
        notes = LedgerBuilder()
        self.about: About = about(tables.header, path, notes)
        self.host = Host(tables, notes)
        self.gpu = Gpu(tables, self.host, notes)
        self.spans = Spans(self.host, self.gpu)
        self.captures: tuple[Recording, ...] = ()
        self.captured: Captured = nothing(len(self.gpu))
        self._note_contents(notes)
        self.ledger = tables.ledger.with_notes(notes.freeze().notes)

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
        note_oddities(self.tables, self.host, self.gpu, self.spans, notes)
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
    def run(self) -> RecordedRun:
        """The run record beside the file: times without the profiler."""
        return read_run(self.path)

    @cached_property
    def compiler_records(self) -> CompiledTrace:
        """The compiler's records beside the file, read at first use."""
        parts = (self.tables, self.host, self.gpu, self.arguments, self.about.rank)
        return CompiledTrace(self.path, *parts)

    @property
    def compiler_run(self) -> CompilerRun | None:
        """What the compiler's records say; None where the trace has none that can be read."""
        return self.compiler_records.run

    @cached_property
    def compiled(self) -> Mapping[int, CompiledLaunch]:
        """By event: the call of compiled code that made it, where the compiler left records."""
        return self.compiler_records.by_event()

    @cached_property
    def origins(self) -> WorkOrigins:
        """The launch and op of every row of `gpu`, here or in a capture."""
        captures = [(each.tables, each.host) for each in self.captures]
        return WorkOrigins(self.tables, self.gpu, self.captured, captures)

    @cached_property
    def arguments(self) -> Arguments:
        """The recorded arguments of op calls."""
        return Arguments(self.tables)

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


def op_call(trace: Recording, op: int) -> OpCall | None:
    """The recorded arguments of one op call; None where the trace recorded none."""
    origins = trace.origins
    found = origins.arguments.of(op)
    if found is None or not found.dims:
        return None
    return found.call(origins.host.names[origins.host.name[op]])
