"""How far the ranks are from each other.

A collective ends on all ranks at once, so that all take the same time for a step. What tells them
apart is the time that a rank does not wait for others: its step time less the exposed part of its
waits. The slowest rank has the most of it.
"""

from __future__ import annotations

import statistics

from foretrace.analyze.guess.job_kinds import NO_WAITS, JobQuery, named
from foretrace.analyze.guess.kinds import GuessKind, Measurement
from foretrace.analyze.guess.windows import Unknown
from foretrace.analyze.guess.words import Amount, Compare
from foretrace.base.units import percent_text, time_text
from foretrace.schema.documents.job import JobRank

_WITHIN, _BEYOND = Compare("<="), Compare(">")


def own_time(rank: JobRank) -> int | None:
    """The time of a step in which a rank does not wait for others."""
    if rank.wall_ns is None or rank.exposed_ns is None or rank.exposed_wait_ns is None:
        return None
    return rank.wall_ns - min(rank.exposed_wait_ns, rank.exposed_ns)


def measure(query: JobQuery) -> Measurement:
    """Judge `slowest rank within 5% of the median`, or every rank in both directions."""
    times = [(time, each) for each in query.found.ranks if (time := own_time(each)) is not None]
    if not times:
        raise Unknown(NO_WAITS)
    median = statistics.median(time for time, _ in times)
    if not median:
        raise Unknown("the ranks do nothing but wait")
    both_ways = "every" in query.args
    time, rank = max(times, key=lambda pair: abs(pair[0] - median) if both_ways else pair[0])
    away = time / median - 1
    limit: Amount = query.args["share"]
    beyond = {"not", "more"} & set(query.args)
    verdict = (_BEYOND if beyond else _WITHIN).of(abs(away) if both_ways else away, limit.exact)
    side = f"{percent_text(abs(away))} {'above' if away >= 0 else 'below'} the median"
    measured = f"{named(rank)}: {time_text(time)} {query.per} without waits, {side}"
    lines = () if verdict != "miss" else (f"median of {len(times):,} ranks: {time_text(median)}",)
    return query.complete(Measurement(verdict, measured, lines=lines))


JOB_KIND = GuessKind(
    "slowest",
    20,
    (
        "slowest rank [is] [not] within {share:share} of [median] [rank]",
        "slowest rank [is] [more] than {share:share} slower|above [than] [median] [rank]",
        "every|each|all rank|ranks [is|are] within {share:share} of [median] [rank]",
    ),
    measure,
    expected=lambda args: f"{'>' if {'not', 'more'} & set(args) else '<='} {args['share'].text}",
)
