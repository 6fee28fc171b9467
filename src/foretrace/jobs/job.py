"""`Job`: the parts of all ranks as tables on disk.

`facts` has every file that was read, by rank and path. `members` are the files whose rows are in
the tables: one for each rank, of one run. Two files that claim one rank, or files of another run,
stay in `facts` alone.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from tempfile import TemporaryDirectory

import polars as pl
from msgspec.structs import replace

from foretrace.jobs.parts import COLUMNS, Answer
from foretrace.schema.documents.sets import LeftOut
from foretrace.schema.jobs import RankFacts, RankPart
from foretrace.schema.ledger import NoteEntry
from foretrace.units import plural


class Job:
    """All ranks of a job. `table` scans the parts on disk; `close` deletes them."""

    def __init__(self, path: str, steps: frozenset[int] | None = None) -> None:
        self.path, self.steps = path, steps
        self.facts: tuple[RankFacts, ...] = ()
        self.members: tuple[RankFacts, ...] = ()
        self.left_out: list[LeftOut] = []
        self.notes: list[NoteEntry] = []
        self._folder = TemporaryDirectory(prefix="foretrace-job-")
        self._places: dict[str, int] = {}  # path: number of its part

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the parts."""
        self._folder.cleanup()

    def take(self, answers: Iterable[Answer], ranks: frozenset[int] | None) -> None:
        """Keep the parts of the wanted ranks."""
        kept: list[RankFacts] = []
        for each in answers:
            if each.left_out:
                self.left_out.append(each.left_out)
            elif each.part and (ranks is None or each.part.facts.rank in ranks):
                facts = each.part.facts
                self._write(each.part, len(kept))
                self._places[facts.path] = len(kept)
                kept.append(facts)
        self.left_out.sort(key=lambda each: each.path)
        self.facts = tuple(self._numbered(kept))
        self.members = tuple(_members(self.facts))

    def _write(self, part: RankPart, number: int) -> None:
        for name, content in part.tables.items():
            with open(self._place(name, number), "wb") as file:
                file.write(content)

    def _place(self, name: str, number: int) -> str:
        return os.path.join(self._folder.name, f"{name}-{number:06}.parquet")

    def _numbered(self, facts: list[RankFacts]) -> list[RankFacts]:
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
        """A table of all members with the column `rank` first, in the chosen steps."""
        scans = [
            pl.scan_parquet(self._place(name, self._places[each.path])).select(
                pl.lit(each.rank, pl.Int64).alias("rank"), pl.all()
            )
            for each in self.members
        ]
        empty = pl.LazyFrame(schema={"rank": pl.Int64, **COLUMNS[name]})
        whole = pl.concat(scans) if scans else empty
        if self.steps is None or "step" not in COLUMNS[name]:
            return whole
        return whole.filter(pl.col("step").is_in(sorted(self.steps)))


def _members(facts: tuple[RankFacts, ...]) -> list[RankFacts]:
    """Of each rank one file, all of the run that most files belong to."""
    runs = Counter(each.job for each in facts)
    main = max(runs, key=lambda job: (runs[job], job)) if runs else ""
    first: dict[int | None, RankFacts] = {}
    for each in facts:
        if each.job == main:
            first.setdefault(each.rank, each)
    return list(first.values())
