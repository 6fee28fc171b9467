"""Which rank the others wait for, and why.

The rank that is last is the one that came last to the most collectives; the straggler made the
others wait longest in all. The cause is what exceeds the other ranks' median before it comes: its
compute, its host, its data loader, its copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretrace.analyze.guess.grammar import Slot, one_phrase, phrases
from foretrace.analyze.guess.job_kinds import NO_WAITS, JobQuery, named
from foretrace.analyze.guess.kinds import GuessKind, Measurement
from foretrace.analyze.guess.windows import Unknown
from foretrace.base.units import count_text, time_text
from foretrace.schema.documents.job import JobRank


def measure(query: JobQuery) -> Measurement:
    """Judge `rank 3 is last`, `rank 3 is the straggler because of data`, `no rank is last`."""
    ranks = [each for each in query.found.ranks if each.wait_ns is not None]
    if not ranks:
        raise Unknown(NO_WAITS)
    by_count = query.args.get("last", "last") == "last"
    first = max(ranks, key=lambda each: _weight(each, by_count))
    if not _weight(first, by_count):
        verdict = "hit" if _wants_none(query.args) else "miss"
        return query.complete(Measurement(verdict, "no rank came last beyond the clocks' error"))
    right = not _wants_none(query.args) and first.rank == query.args["number"].value
    if "cause" in query.args:
        right = right and first.cause == query.args["cause"]
    verdict = "hit" if right is ("not" not in query.args) else "miss"
    rest = sorted(ranks, key=lambda each: -_weight(each, by_count))[:4]
    lines = [
        _text(each, query.per) for each in rest if each is not first and _weight(each, by_count)
    ]
    return query.complete(Measurement(verdict, _text(first, query.per), lines=tuple(lines)))


def _weight(rank: JobRank, by_count: bool) -> int:
    return rank.times_last if by_count else rank.made_others_wait_ns or 0


def _wants_none(args: Mapping[str, Any]) -> bool:
    return "no" in args


def _text(rank: JobRank, per: str) -> str:
    often = f"last in {count_text(rank.times_last)} of {count_text(rank.collectives)} collectives"
    waited = time_text(rank.made_others_wait_ns)
    return f"{named(rank)}: {often}, others waited {waited} {per}, cause: {rank.cause or 'none'}"


def expected(args: Mapping[str, Any]) -> str:
    """`rank 3`, `not rank 3`, `no rank`."""
    if _wants_none(args):
        return "no rank"
    cause = f" ({args['cause'].replace('_', ' ')})" if "cause" in args else ""
    return f"{'not ' if 'not' in args else ''}rank {args['number'].text}{cause}"


_ROLE = "last|straggler|slowest [rank]"
# name -> how people write it
_CAUSES = phrases("""
compute = compute; its compute; slow compute; kernels; its kernels
host = host; its host; cpu; its cpu; launches
data = data; data loading; its data; its data loader; data loader; dataloader
copies = copies; its copies; memcpy
other_comms = other comms; other communication; other collectives
""")
JOB_KIND = GuessKind(
    "last",
    30,
    (
        "rank {number:count} is|comes [not] [a] " + _ROLE,
        "rank {number:count} is|comes [not] [a] " + _ROLE + " because|due|by [of|to] {cause:cause}",
        "last|straggler|slowest [rank] is [not] [rank] {number:count}",
        "no rank is [a] " + _ROLE,
        "no last|straggler|stragglers",
    ),
    measure,
    expected=expected,
    slots={"cause": Slot("compute, host, data, copies, other comms", one_phrase(_CAUSES))},
)
