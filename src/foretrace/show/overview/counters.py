"""The document of `foretrace counters`: counters joined to the kernels of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl
from msgspec import Struct
from msgspec.structs import asdict, replace

from foretrace.base.units import plural, ratio_text
from foretrace.model.about import device_of
from foretrace.model.counters.ceilings import ceilings
from foretrace.model.counters.join import Wanted, joined, launches_of
from foretrace.model.counters.traffic import (
    LevelTraffic,
    counted_ns,
    mean,
    mean_traffic,
    tensor_operations,
    traffic,
)
from foretrace.names.families import decode
from foretrace.read.ncu import CounterExport, CounterLaunch
from foretrace.schema.cost import Certainty
from foretrace.schema.counters import CACHED
from foretrace.schema.documents.counters import (
    CountedKernel,
    CountedRun,
    CountedTotal,
    CountersDocument,
    KnownRoof,
    LevelBytes,
)
from foretrace.show.overview.counter_rates import reached_roofs, stated_operations
from foretrace.show.overview.counter_words import kernel_text, run_sentences

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

SCHEMA = 1
# A kernel that takes this many times longer or shorter under Nsight Compute ran in another state.
OTHER_TIME = 1.25


class Exported(Struct, frozen=True):
    """An export, what is known about how it was made, and its command where we ran it."""

    export: CounterExport
    wanted: Wanted = Wanted()
    command: str | None = None


class _Launch(Struct):
    """One kernel of the trace, or of an export where it is joined to none, with all counters."""

    name: str
    metrics: dict[str, float]
    passes: int
    event: int | None = None


def counters_document(trace: Trace, exports: Sequence[Exported]) -> CountersDocument:
    """Join every export to the trace, and say for each kernel what it moved."""
    gathered = _Gathered(trace)
    for one in exports:
        gathered.add(one)
    roofs = ceilings(device_of(trace.about))
    kernels = _kernels(trace, gathered.launches, roofs)
    total = total_of(kernels)
    notes = [*gathered.notes, *_state_notes(kernels)]
    sentences = run_sentences(gathered.runs, total, kernels)
    device = trace.about.device
    return CountersDocument(
        SCHEMA, trace.path, device, gathered.runs, roofs, total, sentences, kernels, notes
    )


class _Gathered:
    """Launches by kernel of the trace, so that several exports of one script become one."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.names: dict[int, str] = dict(trace.kernels.select("id", "name").iter_rows())
        self.by_event: dict[int, _Launch] = {}
        self.alone: list[list[_Launch]] = []
        self.runs: list[CountedRun] = []
        self.notes: list[str] = []

    @property
    def launches(self) -> list[_Launch]:
        """All of them; where no export has a joined launch, those of the first."""
        return [*self.by_event.values(), *(self.alone[0] if self.alone else [])]

    def add(self, one: Exported) -> None:
        """Join one export."""
        export = one.export
        launches, notes = launches_of(self.trace, export.launches)
        found = joined(self.trace, launches, one.wanted)
        events = dict(found.pairs)
        for at, launch in enumerate(launches):
            if at in events:
                self._join(launch, events[at])
        self.alone.append([_apart(one) for at, one in enumerate(launches) if at not in events])
        self.notes += [*export.notes, *(f"{export.path}: {note}" for note in notes)]
        self.runs.append(
            CountedRun(
                export.path,
                len(launches),
                len(found.pairs),
                found.compared,
                found.place,
                one.command,
                found.note,
            )
        )

    def _join(self, launch: CounterLaunch, event: int) -> None:
        known = self.by_event.get(event)
        if known is None:
            metrics = dict(launch.metrics)
            self.by_event[event] = _Launch(self.names[event], metrics, launch.passes, event)
            return
        fewer = 0 < launch.passes < known.passes
        for metric, value in launch.metrics.items():
            # what a cache changes is taken from the run with fewer passes
            if metric not in known.metrics or (fewer and metric in CACHED):
                known.metrics[metric] = value
        known.passes = min(filter(None, (known.passes, launch.passes)), default=0)


def _apart(launch: CounterLaunch) -> _Launch:
    return _Launch(launch.name, dict(launch.metrics), launch.passes)


def _kernels(trace: Trace, launches: list[_Launch], roofs: list[KnownRoof]) -> list[CountedKernel]:
    """One entry per kernel and shapes, the one with most time first."""
    rows = {row["id"]: row for row in _facts(trace, launches).iter_rows(named=True)}
    cases: dict[tuple[Any, ...], list[_Launch]] = {}
    for launch in launches:
        row = rows.get(launch.event, {})
        cases.setdefault((launch.name, row.get("op_name"), row.get("signature")), []).append(launch)
    found = [
        _kernel(members, [rows[one.event] for one in members if one.event in rows], roofs)
        for members in cases.values()
    ]
    return sorted(found, key=lambda one: -(one.time_ns or one.ncu_ns or 0) * one.launches)


def _facts(trace: Trace, launches: list[_Launch]) -> pl.DataFrame:
    wanted = [launch.event for launch in launches if launch.event is not None]
    columns = (
        *("id", "short", "op_name", "signature", "operand_type"),
        *("dur_ns", "bytes", "flops", "cost_certainty"),
    )
    return trace.kernels.select(columns).filter(pl.col("id").is_in(wanted))


def _kernel(
    members: list[_Launch], rows: list[dict[str, Any]], roofs: list[KnownRoof]
) -> CountedKernel:
    first = rows[0] if rows else {}
    moved = mean_traffic([traffic(one.metrics) for one in members])
    ncu_ns = mean([counted_ns(one.metrics) for one in members])
    time_ns = mean([row["dur_ns"] for row in rows])
    operations = _mean_operations(members)
    done = operations or stated_operations(members[0].name, first)
    reached = reached_roofs(moved, done, time_ns or ncu_ns, roofs)
    known = [one for one in reached if one.share is not None]
    nearest = max(known, key=lambda one: one.share or 0, default=None)
    kernel = CountedKernel(
        kernel=first.get("short") or decode(members[0].name).short,
        name=members[0].name,
        op=first.get("op_name"),
        launches=len(members),
        joined=len(rows),
        passes=max(one.passes for one in members),
        time_ns=time_ns,
        ncu_ns=ncu_ns,
        must_move=mean([row["bytes"] for row in rows]),
        certainty=first.get("cost_certainty"),
        flop=mean([row["flops"] for row in rows]),
        bytes=level_bytes(moved),
        tensor_operations=operations,
        roofs=reached,
        nearest=nearest.level if nearest else None,
        text="",
    )
    return replace(kernel, text=kernel_text(kernel))


def _mean_operations(members: list[_Launch]) -> dict[str, float]:
    each = [tensor_operations(one.metrics) for one in members]
    kinds = dict.fromkeys(kind for one in each for kind in one)
    return {kind: sum(one.get(kind, 0.0) for one in each) / len(each) for kind in kinds}


def level_bytes(moved: LevelTraffic) -> LevelBytes:
    """The levels as the document has them."""
    return LevelBytes(**asdict(moved), kept_in_l2=moved.kept_in_l2, kept_in_l1=moved.kept_in_l1)


def total_of(kernels: Sequence[CountedKernel]) -> CountedTotal:
    """All launches of these kernels together."""
    levels = {
        name: _total(kernels, [getattr(one.bytes, name) for one in kernels])
        for name in LevelBytes.__struct_fields__
    }
    times = [one.time_ns if one.time_ns is not None else one.ncu_ns for one in kernels]
    return CountedTotal(
        sum(one.launches for one in kernels),
        _total(kernels, times),
        _total(kernels, [one.must_move for one in kernels]),
        all(one.certainty == Certainty.EXACT for one in kernels),
        LevelBytes(**levels),
    )


def _total(kernels: Sequence[CountedKernel], values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if not kernels or len(known) < len(values):
        return None
    return sum(one.launches * value for one, value in zip(kernels, known, strict=True))


def _state_notes(kernels: Sequence[CountedKernel]) -> list[str]:
    """What makes counters of HBM and L2 differ from those of the program alone."""
    notes = []
    again = [one for one in kernels if one.passes > 1 and one.bytes.hbm_read is not None]
    if again:
        most = max(one.passes for one in again)
        notes.append(
            f"Nsight Compute ran {plural(len(again), 'kernel')} up to {most} times to count all "
            "metrics: HBM and L2 may be those of a kernel behind itself"
        )
    for one in kernels:
        if one.time_ns and one.ncu_ns:
            ratio = one.ncu_ns / one.time_ns
            if max(ratio, 1 / ratio) > OTHER_TIME:
                notes.append(
                    f"{one.kernel} took {ratio_text(ratio)} its time in the trace under Nsight "
                    "Compute: clocks or caches differ"
                )
    return notes
