"""`Recording`: one trace as its file has it, with launches linked to GPU work.

Every analysis of this package takes a `Recording`, or an `Analysis`, which adds what is worked out
from it. None of them knows `Trace`, the public face on top.

`WorkOrigins` says where GPU work comes from: the launch and the op of every row of `gpu`. An eager
kernel has them in its own trace. A kernel that a graph replays has them in the trace that was
recorded while the graph was captured, where one was found (`trace/captures`). Chains, shapes,
modules, stacks and costs ask there, and need not know which of the two it is. What happened on the
host during the recording (steps, delays, idle time) asks `trace.host` and `trace.gpu`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from foretrace.base.arrays import filled
from foretrace.base.units import times_text
from foretrace.read.ledger import LedgerBuilder
from foretrace.read.run_record import RecordedRun, read_run, snapshot_beside
from foretrace.read.tables import NAMELESS, NONE, Tables
from foretrace.trace.arguments import Arguments
from foretrace.trace.compiled import CompiledTrace
from foretrace.trace.gpu import EVER, Gpu
from foretrace.trace.host import Host, summed
from foretrace.trace.intervals import Bools, Ints, numbered
from foretrace.trace.metadata import About, about, device_of
from foretrace.trace.spans import Span, Spans

if TYPE_CHECKING:
    from foretrace.read.compiler.records import CompiledLaunch, CompilerRun
    from foretrace.trace.allocator.view import MemoryView
    from foretrace.work.costs import OpCall

# Ops whose result is another view of their input's memory. `contiguous`, `to`, `reshape` and their
# like are views only when there is nothing to copy, which is why a call must also be seen to launch
# nothing.
_VIEWS = """
    T _conj _neg_view _reshape_alias _unsafe_view adjoint alias as_strided as_strided_
    broadcast_to chunk conj contiguous detach detach_ diagonal dsplit expand expand_as flatten
    hsplit imag lift_fresh mH mT matrix_H moveaxis movedim narrow numpy_T permute positive ravel
    real reshape reshape_as resolve_conj resolve_neg select slice split split_with_sizes squeeze
    squeeze_ swapaxes swapdims t t_ tensor_split to transpose transpose_ type_as unbind
    unflatten unfold unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_ view
    view_as view_as_complex view_as_real vsplit
"""
VIEWS = frozenset(_VIEWS.split())


class Captured(Struct, frozen=True):
    """For every row of `gpu`: the place of its capture in `trace.captures` and the launch there, an
    event of that trace; -1 where none is known.
    """

    capture: Ints
    launch: Ints


class WorkOrigins:
    """`host` has the events of the trace under their own numbers, then those of its captures.

    `launch` and `op` are events of `host`, or -1, for every row of `gpu`. `tables` are the side
    tables of `host`: `autograd`, `comms`, `frames`, `launches`, `shapes`, `signatures`, `stacks`,
    `triton`.
    """

    def __init__(
        self, tables: Tables, gpu: Gpu, captured: Captured, captures: Sequence[tuple[Tables, Host]]
    ) -> None:
        joined = captured.launch >= 0
        self.host, self.tables = gpu.host, tables
        self._gpu, self.launch, self.op = gpu, gpu.launch, gpu.op
        self.is_captured: Bools = joined
        if joined.any():
            from foretrace.trace.captures import append_tables

            self.tables, first = append_tables(tables, [each for each, _ in captures])
            parts = [gpu.host, *(each for _, each in captures)]
            self.host = Host(self.tables, LedgerBuilder(), parts)
            offset = np.array(first, np.int64)[captured.capture[joined]]
            self.launch, self.op = gpu.launch.copy(), gpu.op.copy()
            self.launch[joined] = captured.launch[joined] + offset
            self.op[joined] = self.host.nearest_op(self.launch[joined])

    @cached_property
    def arguments(self) -> Arguments:
        """The recorded arguments of the op calls of `host`."""
        return Arguments(self.tables)

    @cached_property
    def launched(self) -> Ints:
        """When each row was launched, by the clock of the trace that recorded the launch; its own
        start where none did.
        """
        if not self.is_captured.any():
            return self._gpu.launched
        launch = self.host.start[np.maximum(self.launch, 0)]
        return np.where(self.launch >= 0, launch, self._gpu.start)

    @cached_property
    def launch_or_op(self) -> Ints:
        """The launch of every row, its op where the trace has no launch, or -1."""
        return np.where(self.launch >= 0, self.launch, self.op)

    @cached_property
    def call(self) -> Ints:
        """A number for each call of an op as it ran, or -1; see `calls`."""
        return self.calls(self.op)

    def calls(self, events: Ints) -> Ints:
        """One event of `host` for every row of `gpu`, or -1: a number for each time that it ran.
        Every replay of a graph runs the calls of its capture anew.
        """
        if not self.is_captured.any():
            return events
        replay = np.where(self.is_captured, self._gpu.launch, -1)
        return np.where(events >= 0, numbered(events, replay), -1)

    @cached_property
    def is_first(self) -> Bools:
        """The rows without the second and later replays of what was captured once."""
        first = ~self.is_captured
        captured = np.flatnonzero(self.is_captured)
        first[captured[np.unique(self.launch[captured], return_index=True)[1]]] = True
        return first


def note_oddities(
    tables: Tables, host: Host, gpu: Gpu, spans: Spans, ledger: LedgerBuilder
) -> None:
    """Note GPU events without a name, stream or certain device, steps and callers that repeat."""
    nameless = host.named(NAMELESS.__contains__)[gpu.id]
    ledger.note("name_missing", int(nameless.sum()))
    ledger.note("stream_unknown", int((gpu.stream == -1).sum()))
    ledger.note("device_mismatch", int(gpu.misplaced.sum()))
    # Python functions whose callers, by the ids in the trace, never end.
    frames = tables["frames"]
    own, caller = (filled(frames[name], NONE) for name in ("python_id", "python_parent"))
    space, length = host.namespace[frames["event"].to_numpy()], len(own)
    key = numbered(np.tile(space, 2), np.concatenate((own, caller)))
    holder = np.full(int(key.max(initial=-1)) + 2, -1, np.int64)
    holder[key[:length]] = np.arange(length)
    above = np.where((own == NONE) | (caller == NONE), -1, holder[key[length:]])
    for _ in range(length.bit_length()):  # each round doubles how far up it looks
        above = np.where(above >= 0, above[above], -1)
    ledger.note("parent_cycle", int((above >= 0).sum()))
    # Steps of one process with one number
    counts = Counter((int(host.process[step.event]), step.name) for step in spans.steps)
    again = {name: count for (_, name), count in counts.items() if count > 1}
    if again:
        name, count = next(iter(again.items()))
        ledger.note("step_repeated", len(again), f"{name} was recorded {times_text(count)}")


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
        none = np.full(len(self.gpu), -1, np.int64)
        self.captured = Captured(none, none)
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
        self.ledger = tables.ledger.with_notes(notes.freeze().notes)

    @property
    def event_count(self) -> int:
        """Records seen in the file, repaired and skipped ones included."""
        return self.ledger.seen

    @cached_property
    def run(self) -> RecordedRun:
        """The run record beside the file: times without the profiler."""
        return read_run(self.path)

    @cached_property
    def cut_ns(self) -> int:
        """From when on events may be missing: the file is cut, or the script failed in a step."""
        last, steps, end = self.tables.last, self.spans.steps, self.run.ended
        if last >= 0:
            return int(min([self.host.start[last], *self.gpu.launched[self.gpu.id == last]]))
        return steps[-1].start_ns if steps and end.error is not None and end.note else -EVER

    def whole(self, calls: list[Span]) -> list[Span]:
        """The steps or calls that ended before that; all of them where none did."""
        return [each for each in calls if each.end_ns <= self.cut_ns] or calls

    @cached_property
    def memory_view(self) -> MemoryView | None:
        """The snapshot of the allocator beside the file, read at first use."""
        if snapshot_beside(self.path) is None:
            return None
        from foretrace.trace.allocator.view import view_beside

        return view_beside(self.path)

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


def is_view(name: str) -> bool:
    """Whether an op of this name only changes shape and strides, as long as it launches nothing."""
    return name.removeprefix("aten::") in VIEWS


def work_below(trace: Recording, *, kernels: bool = False) -> Ints:
    """For every event: how much GPU work it launched, itself or through what it called."""
    host, gpu = trace.host, trace.gpu
    chosen = (gpu.launch >= 0) & (gpu.is_kernel | (not kernels))
    return summed(host.parent, np.bincount(gpu.launch[chosen], minlength=host.count))


def gpu_time_below(trace: Recording) -> Ints:
    """For every event: the durations of the GPU work launched by it or anything it called."""
    gpu = trace.gpu
    timed = (gpu.launch >= 0) & gpu.usable
    spent: Ints = np.zeros(trace.host.count, np.int64)
    np.add.at(spent, gpu.launch[timed], gpu.length[timed])
    return summed(trace.host.parent, spent)


class AverageRow(Struct, frozen=True):
    """One row of the profiler's table, summed over the recording. Host times are profiled ones."""

    name: str
    calls: int
    self_cpu_ns: int
    cpu_ns: int
    self_gpu_ns: int
    gpu_ns: int


def average(trace: Recording, name: str) -> AverageRow:
    """The row of an op, a range, a runtime call or a kernel; all zero where there is none.

    The time of a GPU operation is the self time of the innermost op that launched it, and never of
    the call: what a graph launch ran has rows of its own.
    """

    host, gpu = trace.host, trace.gpu
    same = host.named(lambda text: text == name)
    chosen = (host.is_op | host.is_call | host.is_region) & host.lasting & same
    if not chosen.any():
        rows = gpu.usable & same[gpu.id]
        time = int(gpu.length[rows].sum())
        return AverageRow(name, int(rows.sum()), 0, 0, time, time)
    linked = gpu.usable & (gpu.op >= 0)
    own = np.zeros(host.count, np.int64)
    np.add.at(own, gpu.op[linked], gpu.length[linked])
    columns = (host.self_length, host.length, own, summed(host.parent, own))
    return AverageRow(name, int(chosen.sum()), *(int(each[chosen].sum()) for each in columns))
