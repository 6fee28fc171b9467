"""One process per core of this machine, each with one file at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foretrace.errors import TraceError
from foretrace.jobs.reduce import reduce_file
from foretrace.opening import shown
from foretrace.schema.documents.sets import LeftOut
from foretrace.schema.jobs import RankPart
from foretrace.sources.limits import Limits


def refused(path: str, problem: TraceError) -> LeftOut:
    """A file that cannot be read, in words: errors cannot be sent between processes."""
    text = f"{problem.message}; {problem.hint}" if problem.hint else problem.message
    return LeftOut(shown(path), problem.code, shown(text))


def one(path: str, limits: Limits, cache: bool) -> RankPart | LeftOut:
    """One file of a job: its part, or why there is none."""
    try:
        return reduce_file(path, limits, cache)
    except TraceError as problem:
        return refused(path, problem)


def parts(paths: Sequence[str], limits: Limits, cache: bool) -> Iterator[RankPart | LeftOut]:
    """The part of each file, in the order of `paths`."""
    yield from (one(path, limits, cache) for path in paths)
