"""How a job's ranks, causes and places are named in a sentence."""

from __future__ import annotations

from foretrace.base.units import percent_text, time_text
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


def cause_word(cause: str) -> str:
    """`other comms`: a cause in a table."""
    return cause.replace("_", " ")


def missing(document: JobDocument) -> int:
    """The ranks of the job that were not read; 0 where no header says how many it has."""
    world = document.job.world_size or 0
    return max(world - len({row.rank for row in document.ranks}), 0)


def missing_text(document: JobDocument) -> str:
    """What missing ranks mean for `last`; empty where all were read."""
    absent, world = missing(document), document.job.world_size or 0
    which = "it" if absent == 1 else "any of them"
    return f"{absent:,} of {world:,} ranks missing: {which} may have come later" if absent else ""


def per_step(document: JobDocument) -> str:
    """` per step`; nothing for a recording without steps, which counts as one."""
    return " per step" if document.job.steps else ""


def a_step(document: JobDocument) -> str:
    """What times are parts of."""
    return "a step" if document.job.steps else "the recording"


def of_step(document: JobDocument, ns: float | None) -> str:
    """`16.4 ms (9.1%)`."""
    step = document.job.step_ns
    share = f" ({percent_text((ns or 0) / step)})" if step else ""
    return f"{time_text(ns)}{share}"


def clock_error(document: JobDocument) -> int | None:
    """The largest error of the fitted clocks."""
    errors = [row.clock.error_ns for row in document.ranks if row.clock.error_ns is not None]
    return max(errors, default=None)
