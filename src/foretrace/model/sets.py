"""Several traces: whether they are ranks of one job, and what that job shows as a whole.

Traces are ranks of one job only if their headers say the same about it. Ranks may carry different
time bases (a quarter of a year apart, when one process started just after midnight of a quarter) or
claim the same rank; a rank may be missing. `open_all` puts such notes into the ledger of every
trace of the set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from foretrace.base.units import plural
from foretrace.model.metadata import is_coordinator
from foretrace.schema.ledger import LedgerBuilder, Note

if TYPE_CHECKING:
    from foretrace.model.recording import Recording  # imports polars


class Member(Struct, frozen=True):
    """The few facts of one trace that the set needs: many traces need not be open at once."""

    path: str
    rank: int | None
    world_size: int | None
    base_ns: int | None
    job: str = ""


def note_set(traces: Sequence[Recording]) -> None:
    """Add to each ledger what the set as a whole shows."""
    members = [
        Member(
            each.path,
            each.about.rank,
            each.about.world_size,
            each.tables.base_ns,
            each.about.job,
        )
        for each in traces
    ]
    notes = set_notes(members)
    for trace in traces:
        trace.ledger = trace.ledger.with_notes(notes)


def ranks_of_one_job(members: Sequence[Member]) -> list[Member]:
    """The members that are ranks of one job, that of most; empty when the traces are separate.

    Traces without a header of ranks count by the ranks in their names, unless others have one. A
    serving engine's coordinator is no rank, and a job of one process has no other ranks.
    """
    named = [each for each in members if each.rank is not None and not is_coordinator(each.path)]
    ranks = [each for each in named if each.world_size is not None] or named
    jobs = Counter(each.job for each in ranks if each.world_size != 1)
    main = max(jobs, key=lambda job: (jobs[job], job), default="")
    return [each for each in ranks if each.job == main] if jobs[main] > 1 else []


def set_notes(members: Sequence[Member]) -> tuple[Note, ...]:
    """What is odd about the job that the set holds; nothing about separate traces."""
    ranks = ranks_of_one_job(members)
    if not ranks:
        return ()
    notes = LedgerBuilder()
    bases = {member.base_ns for member in ranks}
    text = f"{len(bases)} time bases in {len(ranks)} traces: aligned by baseTimeNanoseconds + ts"
    notes.note("base_mismatch", len(bases) - 1, text)
    claimed = Counter(member.rank for member in ranks if member.rank is not None)
    twice = sorted(rank for rank, count in claimed.items() if count > 1)
    text = f"several traces have the same rank: {', '.join(f'rank {rank}' for rank in twice)}"
    notes.note("rank_duplicate", len(twice), text)
    world = max(member.world_size or 0 for member in ranks)
    outside = sorted(rank for rank in claimed if not 0 <= rank < world)
    here = len(claimed) - len(outside)  # counted: a file may claim any world
    stray = f"; not in that world size: rank {', '.join(map(str, outside))}" if outside else ""
    text = f"{here} of {plural(world, 'rank')} found{stray}"
    notes.note("rank_missing", world - here if claimed else 0, text)
    return notes.freeze().notes
