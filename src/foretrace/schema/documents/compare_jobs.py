"""`foretrace compare JOB_A JOB_B --json`: what changed between two jobs of many ranks."""

from __future__ import annotations

from msgspec import Struct

from foretrace.schema.documents.compare import CompareVerdict
from foretrace.schema.documents.job import JobEntry


class JobChange(Struct, frozen=True):
    """A time per step in A and in B, B over A, and the noise of the steps as a fraction.

    `what` is step (the longest rank), compute, exposed, wait or idle (means over the ranks).
    `beyond` says whether the change is larger than the noise; null where that is not known.
    """

    what: str
    a: float | None
    b: float | None
    ratio: float | None
    noise: float | None
    beyond: bool | None


class LastRank(Struct, frozen=True):
    """The rank that the others wait for most: how long each step (counted once, from the median
    arrival on), how often it came last, and why.
    """

    rank: int
    host: str
    delays_ns: int
    times_last: int
    collectives: int
    cause: str


class NetworkChange(Struct, frozen=True):
    """Bus bandwidth of equal collectives in 10^9 bytes per second: the medians of A and of B."""

    collective: str
    dtype: str
    message_bytes: int
    group_size: int | None
    a: float | None
    b: float | None
    ratio: float | None


class CompareJobsDocument(Struct, frozen=True):
    """B compared with A. `steps_a` and `steps_b` count the whole steps that the times come from.

    `last_a` and `last_b` are null where no rank makes the others wait. `changed` and `unchanged`
    say the same in sentences.
    """

    schema: int
    a: JobEntry
    b: JobEntry
    steps_a: int
    steps_b: int
    verdict: CompareVerdict
    times: list[JobChange]
    last_a: LastRank | None
    last_b: LastRank | None
    last: str
    network: list[NetworkChange]
    changed: list[str]
    unchanged: list[str]


DOCUMENT = CompareJobsDocument
