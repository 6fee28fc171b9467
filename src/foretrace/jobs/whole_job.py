"""`Job`: the parts of all ranks as tables on disk.

`facts` has every file that was read, by rank and path. `members` are the files whose rows are in
the tables: one for each rank, of one run. Two files that claim one rank, or files of another run,
stay in `facts` alone. The tables of a part are Arrow streams with the types that `jobs/tables.py`
names. The answer of a worker crosses processes and machines as MessagePack.
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
from foretrace.jobs.tables import RankFacts, RankPart
from foretrace.read.ledger import LeftOut, NoteEntry
from foretrace.read.tables import NONE
from foretrace.trace.intervals import IntervalUnion, Ints
from foretrace.trace.metadata import Member, ranks_of_one_job


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
