"""How a job's ranks, causes and places are named in a sentence."""

from __future__ import annotations

from foretrace.schema.documents.job import JobDocument, JobRank

ALL = 0.95  # of a delay: the rest is not worth a word
# what made a rank late, as a clause about it
CAUSES = {
    "compute": "its compute takes longer",
    "host": "its host launches late",
    "data": "its data loader is late",
    "copies": "its copies take longer",
    "other_comms": "its collectives in other groups take longer",
    "earlier": "it was late at the collective before",
}


def rank_text(row: JobRank) -> str:
    """`rank 17 (node-2)`; the host only where the files name it."""
    return f"rank {row.rank} ({row.host})" if row.host else f"rank {row.rank}"


def cause_text(cause: str, share: float | None = None) -> str:
    """`its compute takes longer`, `72% because its compute takes longer`."""
    words = CAUSES.get(cause, "the cause is not in the traces")
    return (
        words
        if share is None or share >= ALL or cause not in CAUSES
        else (f"{share:.0%} because {words}")
    )


def missing(document: JobDocument) -> int:
    """The ranks of the job that were not read; 0 where no header says how many it has."""
    world = document.job.world_size or 0
    return max(world - len({row.rank for row in document.ranks}), 0)


def missing_text(document: JobDocument) -> str:
    """What missing ranks mean for `last`; empty where all were read."""
    absent, world = missing(document), document.job.world_size or 0
    which = "it" if absent == 1 else "any of them"
    return f"{absent:,} of {world:,} ranks not read: {which} may have come later" if absent else ""
