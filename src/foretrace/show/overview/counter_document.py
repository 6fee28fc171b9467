"""The document of `foretrace counters`, and its sentences: counters joined to kernels of a trace.

Each kernel has its rate at each level of memory beside the roof of that level. Where the operations
of the tensor cores were not counted, the page takes those that the shapes state.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl
from msgspec import Struct
from msgspec.structs import asdict, replace

from foretrace.base.errors import TraceError, UsageError
from foretrace.base.units import (
    bytes_text,
    change_text,
    percent_text,
    plural,
    ratio_text,
    time_text,
)
from foretrace.model import counters
from foretrace.model.costs.limits import type_key
from foretrace.model.metadata import device_of
from foretrace.model.roofs import dtype_of
from foretrace.names.families import decode
from foretrace.read.ncu import CounterExport, CounterLaunch
from foretrace.schema.documents.counters import (
    CountedKernel,
    CountedRun,
    CountedTotal,
    CountersDocument,
    KnownRoof,
    LevelBytes,
    MeasuredSaving,
    ReachedRoof,
    ReplacedKernels,
)
from foretrace.schema.traffic import CACHED, Certainty

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

# The types whose matrix units have a peak of their own.
_ON_MATRIX_UNITS = {"fp32": "tf32", "fp64": "fp64_matrix"}


def reached_roofs(
    moved: counters.LevelTraffic,
    operations: dict[str, float],
    ns: float | None,
    roofs: list[KnownRoof],
) -> list[ReachedRoof]:
    """One entry for each level that was counted."""
    if not ns:
        return []
    amounts = {"hbm": moved.hbm, "l2": moved.l2, "shared": moved.shared or None}
    amounts |= {f"tensor {_unit(kind)}": count for kind, count in operations.items()}
    known = {roof.level: roof.per_second for roof in roofs}
    found = []
    for level, amount in amounts.items():
        if amount is not None:
            rate, roof = amount / ns * 1e9, known.get(level)
            found.append(ReachedRoof(level, rate, roof, rate / roof if roof else None))
    return found


def stated_operations(name: str, row: dict[str, Any]) -> dict[str, float]:
    """The operations of a matmul from its shapes, where its name says that tensor cores ran."""
    kernel = decode(name)
    dtype = dtype_of(row, kernel) if row else None
    if not dtype or not row["flops"] or kernel.get("tensor_core") is not True:
        return {}
    return {_unit(type_key(dtype)): float(row["flops"])}


def _unit(kind: str) -> str:
    return _ON_MATRIX_UNITS.get(kind, kind)


# Counters of one kernel differ by less between runs (H200, memory kernels: 1% at HBM).
SAME = 0.05
OVER = "That is above the roof: time and counters are of different runs, and caches may differ."
_LEVEL = {"hbm": "HBM", "l2": "L2", "shared": "shared memory"}
_SURE = (Certainty.EXACT, Certainty.AT_LEAST)


def rate_text(rate: float, level: str) -> str:
    """`4.66e12` -> `4.66 TB/s`; operations as `733 TFLOP/s`, of integers as `TOP/s`."""
    if level.startswith("tensor"):
        unit = "TOP/s" if level.startswith("tensor int") else "TFLOP/s"
        return f"{rate / 1e12:.3g} {unit}"
    return f"{rate / 1e12:.2f} TB/s" if rate >= 1e12 else f"{rate / 1e9:.3g} GB/s"


def level_text(level: str) -> str:
    """`tensor bf16` -> `bf16 tensor cores`."""
    kind = level.removeprefix("tensor ")
    return _LEVEL.get(level, f"{kind} tensor cores")


def reached_text(reached: ReachedRoof) -> str:
    """`4.47 TB/s of HBM, 95.9% of its roof`."""
    text = f"{rate_text(reached.rate, reached.level)} at {level_text(reached.level)}"
    return text if reached.share is None else f"{text}, {percent_text(reached.share)} of its roof"


def kernel_text(kernel: CountedKernel) -> str:
    """What one launch moved, what stayed on chip, and the nearest roof."""
    nearest = next((one for one in kernel.roofs if one.level == kernel.nearest), None)
    read, written = kernel.bytes.hbm_read, kernel.bytes.hbm_written
    counted = read is not None or written is not None
    parts = [
        f"HBM: {bytes_text(read)} read, {bytes_text(written)} written." if counted else "",
        _against_shapes(kernel),
        _l2_text(kernel),
        "" if nearest is None else f"Nearest roof: {reached_text(nearest)}.",
        OVER if nearest is not None and (nearest.share or 0) > 1 + SAME else "",
    ]
    return " ".join(filter(None, parts)) or "Nothing that this page shows was counted."


def _against_shapes(kernel: CountedKernel) -> str:
    """The traffic of HBM beside what the op must move, where its shapes state that."""
    must, moved = kernel.must_move, _hbm(kernel.bytes)
    if must is None or moved is None or kernel.certainty not in _SURE:
        return ""
    exact = kernel.certainty == Certainty.EXACT
    if not exact or moved <= must * (1 + SAME):
        return _needed("The op", must, moved, exact)
    why = "it read again, or wrote back what earlier kernels left in L2"
    more = f"HBM moved {bytes_text(moved - must)} more ({why})"
    return f"The op must move {bytes_text(must)}: {more}."


def _needed(who: str, must: float, moved: float, exact: bool, where: str = "") -> str:
    """What must move at least, and how much of it did not need HBM."""
    least = "" if exact else "at least "
    kept = f": {least}{bytes_text(must - moved)} stayed in L2{where}"
    return f"{who} must move {least}{bytes_text(must)}{kept if moved < must * (1 - SAME) else ''}."


def _l2_text(kernel: CountedKernel) -> str:
    through, read, kept = kernel.bytes.l2, kernel.bytes.l2_read, kernel.bytes.kept_in_l2
    if through is None:
        return ""
    text = f"L2: {bytes_text(through)} to and from the multiprocessors"
    if read and kept is not None:
        return f"{text}; {percent_text(kept / read)} of the reads did not need HBM."
    return f"{text}."


def _hbm(levels: LevelBytes) -> float | None:
    """Read and written together; None where one is not known."""
    read, written = levels.hbm_read, levels.hbm_written
    return None if read is None or written is None else read + written


def _joined_text(run: CountedRun) -> str:
    launches = plural(run.launches, "launch", "launches")
    text = f"{run.joined:,} of {launches} joined to {run.place} ({plural(run.compared, 'kernel')})"
    return f"{text}: {run.note}." if run.note else f"{text}."


def _totals(total: CountedTotal, kernels: Sequence[CountedKernel]) -> list[str]:
    moved = _hbm(total.bytes)
    if moved is None:
        return []
    time = "" if total.time_ns is None else f" in {time_text(total.time_ns)}"
    read, written = map(bytes_text, (total.bytes.hbm_read, total.bytes.hbm_written))
    counted = plural(total.launches, "launch", "launches")
    text = f"{counted}{time}: {read} read from HBM, {written} written."
    sure = all(one.certainty in _SURE for one in kernels)
    if total.must_move is None or not sure:
        return [text]
    where = " between or inside kernels"
    return [text, _needed("The ops", total.must_move, moved, total.exact, where)]


def saving_sentences(saving: MeasuredSaving) -> list[str]:
    """What this run moves less or more than the earlier one, measured on both sides."""
    before, after = saving.before, saving.after
    rows = [
        ("GPU time", before.time_ns, after.time_ns, time_text),
        ("HBM", _hbm(before.bytes), _hbm(after.bytes), bytes_text),
        ("L2", before.bytes.l2, after.bytes.l2, bytes_text),
        ("L2 lookups", before.bytes.l2_lookups, after.bytes.l2_lookups, bytes_text),
        ("shared memory", before.bytes.shared, after.bytes.shared, bytes_text),
    ]
    counted = plural(after.launches, "launch", "launches")
    same = before.launches == after.launches
    found = [f"{counted} on both sides." if same else f"{before.launches:,} to {counted}."]
    for name, old, new, text in rows:
        if old is None or new is None or (not old and not new):
            continue
        if old and abs(new / old - 1) <= SAME:
            found.append(f"{name}: {change_text(old, new, text)}, within 5%.")
        else:
            change = f"{text(abs(new - old))} {'less' if new < old else 'more'}"
            found.append(f"{name}: {change_text(old, new, text)}, {change}.")
    return [*found, *_replaced_text(saving), *_estimated(saving)]


def _replaced_text(saving: MeasuredSaving) -> list[str]:
    if not saving.gone.kernels or not saving.new.kernels:
        return []
    sides = []
    for side in (saving.gone, saving.new):
        moved, time = _hbm(side.total.bytes), side.total.time_ns
        names = ", ".join(side.kernels[:4]) + (", …" if len(side.kernels) > 4 else "")
        facts = [
            "" if time is None else time_text(time),
            "" if moved is None else f"{bytes_text(moved)} of HBM",
        ]
        sides.append(f"{names} ({', '.join(filter(None, facts))})")
    return [f"Replaced: {sides[0]} by {sides[1]}."]


def _estimated(saving: MeasuredSaving) -> list[str]:
    """What shapes alone would have promised, beside what was counted."""
    old, new = saving.before.must_move, saving.after.must_move
    counted = [_hbm(saving.before.bytes), _hbm(saving.after.bytes)]
    if old is None or new is None or counted[0] is None or counted[1] is None:
        return []
    if not (saving.before.exact and saving.after.exact) or old <= new:
        return []
    found = bytes_text(counted[0] - counted[1])
    promised = f"From shapes alone the saving would be {bytes_text(old - new)}"
    return [f"{promised}; counted at HBM: {found}."]


SCHEMA = 1
# A kernel that takes this many times longer or shorter under Nsight Compute ran in another state.
OTHER_TIME = 1.25


class Exported(Struct, frozen=True):
    """An export, what is known about how it was made, and its command where we ran it."""

    export: CounterExport
    wanted: counters.Wanted = counters.Wanted()
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
    roofs = counters.ceilings(device_of(trace.about))
    rows = {row["id"]: row for row in _facts(trace, gathered.launches).iter_rows(named=True)}
    cases = defaultdict[tuple[Any, ...], list[_Launch]](list)
    for launch in gathered.launches:
        row = rows.get(launch.event, {})
        cases[launch.name, row.get("op_name"), row.get("signature")].append(launch)
    found = [
        _kernel(members, [rows[one.event] for one in members if one.event in rows], roofs)
        for members in cases.values()
    ]
    kernels = sorted(found, key=lambda one: -(one.time_ns or one.ncu_ns or 0) * one.launches)
    total = total_of(kernels)
    notes = [*gathered.notes, *_state_notes(kernels)]
    sentences = [*dict.fromkeys(map(_joined_text, gathered.runs)), *_totals(total, kernels)]
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
        launches, notes = counters.launches_of(self.trace, export.launches)
        found = counters.joined(self.trace, launches, one.wanted)
        events = dict(found.pairs)
        for at, launch in enumerate(launches):
            if at in events:
                self._join(launch, events[at])
        alone = [launch for at, launch in enumerate(launches) if at not in events]
        self.alone.append([_Launch(one.name, dict(one.metrics), one.passes) for one in alone])
        self.notes += [*export.notes, *(f"{export.path}: {note}" for note in notes)]
        counts = len(launches), len(found.pairs), found.compared
        self.runs.append(CountedRun(export.path, *counts, found.place, one.command, found.note))

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
    moved = counters.mean_traffic([counters.traffic(one.metrics) for one in members])
    ncu_ns = counters.mean([counters.counted_ns(one.metrics) for one in members])
    time_ns = counters.mean([row["dur_ns"] for row in rows])
    counted = [counters.tensor_operations(one.metrics) for one in members]
    units = dict.fromkeys(kind for one in counted for kind in one)
    operations = {kind: sum(one.get(kind, 0.0) for one in counted) / len(counted) for kind in units}
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
        must_move=counters.mean([row["bytes"] for row in rows]),
        certainty=first.get("cost_certainty"),
        flop=counters.mean([row["flops"] for row in rows]),
        bytes=LevelBytes(**asdict(moved), kept_in_l2=moved.kept_in_l2, kept_in_l1=moved.kept_in_l1),
        tensor_operations=operations,
        roofs=reached,
        nearest=nearest.level if nearest else None,
        text="",
    )
    return replace(kernel, text=kernel_text(kernel))


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


LARGEST = 64 << 20  # bytes
_HINT = "write one with `foretrace counters … --json > before.json`, or add --ncu FILE to a trace"


def load_counters(path: str) -> CountersDocument:
    """A document that was written earlier."""
    try:
        if os.path.getsize(path) > LARGEST:
            raise TraceError("E_TOO_LARGE", path, "larger than 64 MiB", hint=_HINT)
        with open(path, "rb") as file:
            found = msgspec.json.decode(file.read(), type=CountersDocument)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        message = f"not a document of `foretrace counters`: {problem}"
        raise TraceError("E_NOT_COUNTERS", path, message, hint=_HINT) from problem
    if found.schema != SCHEMA:
        raise UsageError(f"{path}: counters of schema {found.schema}; this version reads {SCHEMA}")
    return found


def with_earlier(after: CountersDocument, before: CountersDocument, path: str) -> CountersDocument:
    """The later document with what changed since the earlier one."""
    old, new = ({one.name for one in side.kernels} for side in (before, after))
    gone = [one for one in before.kernels if one.name not in new]
    fresh = [one for one in after.kernels if one.name not in old]
    changed = [
        ReplacedKernels([one.kernel for one in kernels], total_of(kernels))
        for kernels in (gone, fresh)
    ]
    saving = MeasuredSaving(path, before.total, after.total, changed[0], changed[1], [])
    return replace(after, against=replace(saving, sentences=saving_sentences(saving)))
