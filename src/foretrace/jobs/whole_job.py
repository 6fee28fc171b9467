"""`Job`: the parts of all ranks as tables on disk.

`facts` has every file that was read, by rank and path. `members` are the files whose rows are in
the tables: one for each rank, of one run. Two files that claim one rank, or files of another run,
stay in `facts` alone.

A worker reads one file and returns a `RankPart`: facts, and the tables below as Arrow streams. It
crosses processes and machines as MessagePack. Everything about the job is computed from the parts;
no worker and no analysis opens a trace again.
Times are integer nanoseconds on the clock of the rank's own host, since 1970 where the file has a
time base. The tables are steps, collectives, spans, host and kernels; `COLUMNS` lists their
columns. Each also has `rank` once the parts are put together.

A step's window tiles the recording: from the end of the GPU work of the step before (for the first
step: from the start of its host range) to the end of its own GPU work. `compute_ns` and `comms_ns`
are unions over all streams inside the window, `both_ns` is where both run, `copy_ns` is where only
copies run, `idle_ns` where nothing runs, `data_ns` the part of `idle_ns` in which the launching
thread is in the data loader, and `host_ns` the rest of `idle_ns`. `whole` is false for a step that
the recording cut. A recording without steps is one step, numbered -1. GPU work has the step that
launched it, and a null where it was launched before the recording. On a rank without GPU work, ops
on the host are its compute and collectives on the host its comms.

`order` counts the collectives of one group on one rank by the time of their launch, from 0, over
the whole recording. `since_ns` is the end of the previous collective of the same group on this
rank, or the start of the step's window. The five times after it say what the rank did from
`since_ns` to `start_ns`: `compute_ns`, `comms_ns` (without compute), `copy_ns` (copies alone) and
`idle_ns` add up to it, and `data_ns` is a part of `idle_ns`. `alone_ns` is the part of the
collective under which no compute runs.
`ready_ns` is when the compute and copies are over that were launched before the collective, where
that can be seen: it starts no earlier. `on_host` collectives (gloo) are host ranges. `peer` is the
other rank of a send or receive.

A span is GPU work of one kind (compute, comms, copy) on one stream without a pause longer than
`PAUSE_NS`; a collective is always a span of its own and `collective` is its id. `host` has what the
launching thread waits for: data, sync, comms (a collective on the host). `kernels` has those of the
whole steps; `signature` is the sizes of a kernel's op, or its grid where no sizes are recorded.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from io import BytesIO
from tempfile import TemporaryDirectory

import msgspec
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.errors import UsageError
from foretrace.base.units import plural
from foretrace.read.ledger import LeftOut, NoteEntry
from foretrace.read.tables import NONE
from foretrace.trace.intervals import IntervalUnion, Ints
from foretrace.trace.metadata import Member, ranks_of_one_job

PAUSE_NS = 1_000
WITHOUT_STEPS = -1


def step_name(number: int) -> str:
    """What a number of a step means to a reader."""
    return "the recording" if number == WITHOUT_STEPS else f"step {number}"


class JobGroup(Struct, frozen=True):
    """A process group as a header names it; `ranks` is empty where only its size is known."""

    name: str
    description: str = ""
    size: int | None = None
    ranks: tuple[int, ...] = ()


class RankFacts(Struct, frozen=True):
    """What a file says about its rank, and how it was read."""

    path: str
    rank: int | None
    world_size: int | None
    job: str
    host: str  # from the file's name or its header; empty where neither has it
    pid: int | None
    devices: tuple[str, ...]
    groups: tuple[JobGroup, ...]
    has_time_base: bool
    start_ns: int
    end_ns: int
    file_bytes: int
    events: int
    steps: tuple[int, ...]
    kernel_signature: str  # equal where names, shapes and counts of kernels in a step are equal
    notes: tuple[NoteEntry, ...] = ()
    lost_data: bool = False


class RankPart(Struct, frozen=True):
    """One file, reduced. `tables` has an Arrow stream for each table."""

    facts: RankFacts
    tables: dict[str, bytes]


class FileAnswer(Struct, frozen=True):
    """What a worker says about a file: its part, or why there is none."""

    part: RankPart | None = None
    left_out: LeftOut | None = None


_KINDS = {
    "i": pl.Int64(), "s": pl.String(), "b": pl.Boolean(), "f": pl.Float64(), "u": pl.UInt32(),
    "c": pl.Categorical(),
}  # fmt: skip


def columns(text: str) -> dict[str, pl.DataType]:
    """Names and types of columns from `name:kind name`; one without a kind has whole numbers."""
    pairs = (each.partition(":")[::2] for each in text.split())
    return {name: _KINDS[kind or "i"] for name, kind in pairs}


COLUMNS = {
    "steps": columns(
        "step start_ns end_ns window_start_ns window_end_ns compute_ns comms_ns both_ns copy_ns "
        "idle_ns data_ns host_ns kernels collectives whole:b"
    ),
    "collectives": columns(
        "id step group:s group_size seq comms_id:s order collective:s dtype:s in_bytes out_bytes "
        "message_bytes peer on_host:b stream launch_ns ready_ns start_ns end_ns since_ns "
        "compute_ns copy_ns comms_ns idle_ns data_ns alone_ns"
    ),
    "spans": columns("step kind:s stream start_ns end_ns count name:s collective"),
    "host": columns("step kind:s start_ns end_ns name:s"),
    "kernels": columns("name:s short:s role:s signature:s count total_ns per_step:f"),
}


def typed(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """A table with exactly its columns; what a file does not state is null."""
    # one column at a time: a query over all of them takes longer than the columns
    absent = pl.Series([None]).new_from_index(0, frame.height)
    columns = []
    for column, kind in COLUMNS[name].items():
        found = frame.get_column(column, default=absent).cast(kind).alias(column)
        whole = kind == _KINDS["i"] and found.min() == NONE
        columns.append(found.replace(NONE, None) if whole else found)
    return pl.DataFrame(columns)


def packed(name: str, frame: pl.DataFrame) -> bytes:
    """A table as an Arrow stream."""
    typed(name, frame).write_ipc_stream(file := BytesIO(), compression="zstd")
    return file.getvalue()


def unpacked(content: bytes) -> pl.DataFrame:
    """The table of a part."""
    return pl.read_ipc_stream(BytesIO(content))


def covered(work: pl.DataFrame, asked: pl.DataFrame) -> Ints:
    """How long work of the same rank runs in each stretch of `asked`. Both have rank,
    start_ns and end_ns; ranks are laid end to end on one axis: their clocks may be years apart.
    """
    extent = pl.concat([work, asked]).group_by("rank").agg(
        pl.col("start_ns").min().alias("first"), pl.col("end_ns").max().alias("last")
    )  # fmt: skip
    room = pl.col("last") - pl.col("first") + 1
    shift = (room.cum_sum() - room - pl.col("first")).alias("shift")
    shifts = extent.sort("rank").select("rank", shift)
    laid = [frame.join(shifts, on="rank", how="left", maintain_order="left")
            for frame in (work, asked)]  # fmt: skip
    busy, stretch = (
        [(frame[name] + frame["shift"]).to_numpy() for name in ("start_ns", "end_ns")]
        for frame in laid
    )
    return IntervalUnion(*busy).between(*stretch)


class Job:
    """All ranks of a job. `table` scans the parts on disk; `close` deletes them."""

    def __init__(self, path: str, steps: frozenset[int] | None = None) -> None:
        self.path, self.steps = path, steps
        self.ranks: frozenset[int] | None = None  # those that were chosen
        self.facts: tuple[RankFacts, ...] = ()
        self.members: tuple[RankFacts, ...] = ()
        self.separate = False  # nothing says that the files are ranks of one job
        self.left_out: list[LeftOut] = []
        self.notes: list[NoteEntry] = []
        self._files: dict[str, list[str]] = {}
        self._folder = TemporaryDirectory(prefix="foretrace-job-")

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the parts."""
        self._folder.cleanup()

    def take(self, answers: Iterable[FileAnswer], ranks: frozenset[int] | None = None) -> None:
        """Keep the parts of the wanted ranks, then put them together rank by rank."""
        self.ranks = ranks
        kept: dict[str, RankFacts] = {}
        places: dict[str, int] = {}
        for number, each in enumerate(answers):
            if each.left_out:
                self.left_out.append(each.left_out)
            elif each.part:
                with open(self._part(number), "wb") as file:
                    file.write(msgspec.msgpack.encode(each.part.tables))
                kept[each.part.facts.path] = each.part.facts
                places[each.part.facts.path] = number
        self.left_out.sort(key=lambda each: each.path)
        numbered = self._numbered(kept.values())
        self.facts = tuple(each for each in numbered if ranks is None or each.rank in ranks)
        self.members = tuple(_members(self.facts))
        self._refuse_others(numbered)
        self._join((each.rank, places[each.path]) for each in self.members)
        files = [
            Member(each.path, each.rank, each.world_size, None, each.job) for each in kept.values()
        ]
        self.separate = len(files) > 1 and not ranks_of_one_job(files)
        if self.separate:  # unless a rank recorded a collective
            self.separate = self.table("collectives").head(1).collect().is_empty()

    def _refuse_others(self, numbered: Sequence[RankFacts]) -> None:
        """Refuse a choice of ranks or steps that no file has."""
        if numbered and not self.facts:
            others = plural(len({each.rank for each in numbered}), "other rank")
            raise UsageError(f"--ranks: {self.path} has none of these ({others})")
        recorded = {step for each in self.members for step in each.steps}
        if self.members and self.steps is not None and not self.steps & recorded:
            there = f"{min(recorded)} to {max(recorded)}" if recorded else "none"
            raise UsageError(f"--steps: no rank recorded one of these (recorded: {there})")

    def _part(self, number: int) -> str:
        return os.path.join(self._folder.name, f"{number:06}.part")

    def _join(self, parts: Iterable[tuple[int | None, int]]) -> None:
        """Few files for many parts: each costs time whenever a table is scanned."""
        held = {
            name: [pl.DataFrame(schema={"rank": pl.Int64, **columns})]
            for name, columns in COLUMNS.items()
        }
        rows = dict.fromkeys(COLUMNS, 0)
        for rank, number in parts:
            with open(self._part(number), "rb") as file:
                tables = msgspec.msgpack.decode(file.read(), type=dict[str, bytes])
            for name in COLUMNS:
                table = unpacked(tables[name])
                own = pl.Series("rank", [rank], pl.Int64).new_from_index(0, table.height)
                held[name].append(table.insert_column(0, own))
                rows[name] += table.height
                if rows[name] >= 1 << 20:  # of a table, put into one file
                    self._put(name, held[name])
                    held[name], rows[name] = [], 0
            os.unlink(self._part(number))
        for name, frames in held.items():
            self._put(name, frames)

    def _put(self, name: str, frames: list[pl.DataFrame]) -> None:
        files = self._files.setdefault(name, [])
        if frames:
            files.append(os.path.join(self._folder.name, f"{name}-{len(files):06}.parquet"))
            pl.concat(frames, rechunk=False).write_parquet(files[-1])

    def _numbered(self, facts: Collection[RankFacts]) -> list[RankFacts]:
        """By rank; files that state none get numbers that are free, in the order of their paths."""
        taken = {each.rank for each in facts}
        free = (number for number in range(len(facts) * 2 + 1) if number not in taken)
        unknown = [each for each in facts if each.rank is None]
        given = {each.path: next(free) for each in sorted(unknown, key=lambda each: each.path)}
        if given:
            text = f"{plural(len(given), 'file')} without a rank: numbered by order of path"
            self.notes.append(NoteEntry("rank_unknown", "notice", len(given), text))
        found = [replace(each, rank=given.get(each.path, each.rank)) for each in facts]
        return sorted(found, key=lambda each: (each.rank or 0, each.path))

    def table(self, name: str) -> pl.LazyFrame:
        """A table of all members by rank, in the chosen steps."""
        whole = pl.scan_parquet(self._files[name])
        if self.steps is None or "step" not in COLUMNS[name]:
            return whole
        return whole.filter(pl.col("step").is_in(sorted(self.steps)))


def _members(facts: Sequence[RankFacts]) -> list[RankFacts]:
    """Of each rank one file, all of the run that most files belong to; of several recordings of a
    run, the one that most ranks have.
    """
    runs = Counter(each.job for each in facts)
    main = max(runs, key=lambda job: (runs[job], job)) if runs else ""
    own = [each for each in facts if each.job == main]
    recordings = Counter(each.steps for each in own)
    found: dict[int | None, RankFacts] = {}
    for each in sorted(own, key=lambda each: (-recordings[each.steps], each.steps)):
        found.setdefault(each.rank, each)
    return [found[rank] for rank in sorted(found, key=lambda rank: rank or 0)]
