"""Kinds of prediction about a job.

Each measures the document of `foretrace job`, so that a prediction copied from that page is a hit.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from foretrace.base.units import bytes_text, count_text, percent_text, plural, time_text
from foretrace.check.grammar import Slot, one_phrase, phrases
from foretrace.check.kinds import (
    GuessKind,
    Measurement,
    Patterns,
    in_order,
    judge_all,
    patterns_of,
    prediction,
)
from foretrace.check.selection import TEXTS
from foretrace.check.windows import NoSuchPlace, Unknown
from foretrace.check.words import EQUALS, Amount, Compare
from foretrace.jobs.documents import JobDocument, JobNetwork, JobRank

NO_WAITS = "no collective was matched between ranks whose clocks could be fitted"
LISTED = 6  # ranks under a miss; the table of `foretrace job` has the rest


@dataclass(frozen=True, slots=True)
class JobQuery:
    """A prediction to measure: what its pattern read, and the job."""

    args: Mapping[str, Any]
    found: JobDocument

    def judge(self, value: float) -> str:
        """The verdict on a measured value."""
        limit = next(self.args[name] for name in ("share", "time", "amount") if name in self.args)
        verdict: str = self.args.get("compare", EQUALS).of(value, limit)
        return verdict

    @property
    def gap(self) -> str:
        """Why ranks may differ from those that were read; empty when all were."""
        job = self.found.job
        if job.world_size is not None and job.missing:
            return f"{job.world_size - job.missing:,} of {job.world_size:,} ranks were read"
        left_out = plural(len(self.found.left_out), "file")
        return f"{left_out} could not be read" if self.found.left_out else ""

    @property
    def per(self) -> str:
        """What times are of: `per step`, or the whole where the traces have no steps."""
        return "per step" if self.found.job.steps else "in the recording"

    def complete(self, found: Measurement) -> Measurement:
        """The same; a hit that ranks which were not read could change is unknown."""
        if found.verdict != "hit" or not self.gap:
            return found
        return Measurement("unknown", found.measured, self.gap)


@cache
def every() -> tuple[GuessKind, ...]:
    """Every kind, in the order in which their patterns are tried."""
    return in_order(globals().values())


@cache
def patterns() -> Patterns:
    """Every pattern with its kind, in the same order."""
    return patterns_of(every())


def named(rank: JobRank) -> str:
    """`rank 3 (node-1)`."""
    return f"rank {rank.rank}" + (f" ({rank.host})" if rank.host else "")


def _value(query: JobQuery, rank: JobRank) -> float | None:
    """The quantity of one rank; None where its trace does not have it."""
    quantity = query.args["quantity"]
    parts = (rank.exposed_ns, rank.both_ns)
    comms = None if None in parts else sum(part or 0 for part in parts)
    time: int | None = comms if quantity == "comms" else getattr(rank, _FIELDS[quantity])
    if "share" not in query.args:
        return time
    whole = comms if quantity == "overlap" else rank.wall_ns
    return None if time is None or not whole else time / whole


def _all(query: JobQuery, values: dict[int, float | None], known: dict[int, float]) -> Measurement:
    answers = [None if value is None else query.judge(value) == "hit" for value in values.values()]
    verdict = judge_all(query.args["quantifier"], answers, unclear=False)
    least, most = min(known, key=lambda rank: known[rank]), max(known, key=lambda rank: known[rank])
    low, high = (_text(query, known[rank]) for rank in (least, most))
    measured = low if low == high else f"{low} (rank {least}) to {high} (rank {most})"
    missing = plural(len(values) - len(known), "rank")
    why = f"{missing} of {len(values):,} without it" if verdict == "unknown" else ""
    return Measurement(verdict, measured, why, lines=_deciding(query, known, verdict))


def _deciding(query: JobQuery, known: dict[int, float], verdict: str) -> tuple[str, ...]:
    """The ranks that make it a miss, those furthest from the median first."""
    if verdict != "miss":
        return ()
    wanted = "miss" if query.args["quantifier"] == "every" else "hit"
    ranks = [each for each in query.found.ranks if each.rank in known]
    wrong = [each for each in ranks if query.judge(known[each.rank]) == wanted] or ranks
    middle = statistics.median(known.values())
    wrong.sort(key=lambda each: -abs(known[each.rank] - middle))
    lines = [f"{_text(query, known[each.rank]):>8}  {named(each)}" for each in wrong[:LISTED]]
    more = len(wrong) - LISTED
    return (*lines, *([f"… and {plural(more, 'more rank')}"] if more > 0 else []))


def _text(query: JobQuery, value: float) -> str:
    return percent_text(value) if "share" in query.args else time_text(value)


# name -> how people write it
_QUANTITIES = phrases("""
step time = step time; iteration time; time; steps; step
compute = compute time; compute
exposed comms = exposed comms; exposed communication; exposed time; exposed; comms exposed
comms = comms time; comms; communication; communication time
overlap = overlap; overlapped comms; hidden comms; hidden communication
copies = copy time; copies; copy; memcpy time; memcpy
idle = gpu idle; idle time; idle; gpu idle time
data = data loading; data loader; data time; data; dataloader; waiting for data
host = host time; host; host idle
wait = wait; waits; waiting; wait time; waiting time
transfer = transfer; transfers; transfer time
""")
_FIELDS = {
    "step time": "wall_ns",
    "exposed comms": "exposed_ns",
    "overlap": "both_ns",
    "copies": "copy_ns",
    **{name: f"{name}_ns" for name in ("compute", "idle", "data", "host", "wait", "transfer")},
}


@prediction(
    "ranks",
    10,
    *(
        pattern.replace("SAID", f"{{quantity:quantity}} {{compare:compare}} {limit}")
        for pattern in (
            "{quantifier:quantifier} rank|ranks [:|has|have] SAID",
            "rank {number:count} [:|has] SAID",
            "SAID on|in|for {quantifier:quantifier} rank|ranks",
            "SAID on|in|for rank {number:count}",
            "[median] [rank] [:] SAID",
        )
        for limit in ("{share:share}", "{time:time}")
    ),
    slots={
        "quantity": Slot(
            "of a job's ranks: step time, compute, exposed comms, comms, overlap, copies, idle, "
            "data, host, wait, transfer",
            one_phrase(_QUANTITIES),
        )
    },
)
def _of_ranks(query: JobQuery) -> Measurement:
    """What a rank does in a step: compute, exposed communication, waits, copies, idle time.

    Shares are of the rank's step time, times are means per step, as in the table of `foretrace
    job`. Exposed communication runs without compute under it; `wait` is the time in collectives
    until the last rank came, `transfer` the rest; `overlap` is the share of the communication that
    compute hides. Without a rank the median over the ranks is meant.
    """
    values = {each.rank: _value(query, each) for each in query.found.ranks}
    number = int(query.args["number"].value) if "number" in query.args else None
    if number is not None and number not in values:
        there = ", ".join(map(str, [*values][:LISTED]))
        more = f" and {len(values) - LISTED:,} more" if len(values) > LISTED else ""
        raise NoSuchPlace(f"no rank {number} in this job; it has {there}{more}")
    known = {rank: value for rank, value in values.items() if value is not None}
    if not known or (number is not None and number not in known):
        raise Unknown(f"the traces do not have it: {query.args['quantity']}")
    if "quantifier" in query.args:
        return query.complete(_all(query, values, known))
    value = statistics.median(known.values()) if number is None else known[number]
    found = Measurement(query.judge(value), _text(query, value))
    return query.complete(found) if number is None else found


_WITHIN, _BEYOND = Compare("<="), Compare(">")


def own_time(rank: JobRank) -> int | None:
    """The time of a step in which a rank does not wait for others."""
    if rank.wall_ns is None or rank.exposed_ns is None or rank.exposed_wait_ns is None:
        return None
    return rank.wall_ns - min(rank.exposed_wait_ns, rank.exposed_ns)


@prediction(
    "slowest",
    20,
    "slowest rank [is] [not] within {share:share} of [median] [rank]",
    "slowest rank [is] [more] than {share:share} slower|above [than] [median] [rank]",
    "every|each|all rank|ranks [is|are] within {share:share} of [median] [rank]",
    expected=lambda args: f"{'>' if {'not', 'more'} & set(args) else '<='} {args['share'].text}",
)
def _slowest(query: JobQuery) -> Measurement:
    """How far the ranks are from each other.

    A collective ends on all ranks at once, so that all take the same time for a step. What tells
    them apart is the time that a rank does not wait for others: its step time less the exposed part
    of its waits. The slowest rank has the most of it.
    """
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


def _weight(rank: JobRank, by_count: bool) -> int:
    return rank.times_last if by_count else rank.made_others_wait_ns or 0


def _last_text(rank: JobRank, per: str) -> str:
    often = f"last in {count_text(rank.times_last)} of {count_text(rank.collectives)} collectives"
    waited = time_text(rank.made_others_wait_ns)
    return f"{named(rank)}: {often}, others waited {waited} {per}, cause: {rank.cause or 'none'}"


def _last_expected(args: Mapping[str, Any]) -> str:
    """`rank 3`, `not rank 3`, `no rank`."""
    if "no" in args:
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


@prediction(
    "last",
    30,
    "rank {number:count} is|comes [not] [a] " + _ROLE,
    "rank {number:count} is|comes [not] [a] " + _ROLE + " because|due|by [of|to] {cause:cause}",
    "last|straggler|slowest [rank] is [not] [rank] {number:count}",
    "no rank is [a] " + _ROLE,
    "no last|straggler|stragglers",
    expected=_last_expected,
    slots={"cause": Slot("compute, host, data, copies, other comms", one_phrase(_CAUSES))},
)
def _last(query: JobQuery) -> Measurement:
    """Which rank the others wait for, and why.

    The rank that is last is the one that came last to the most collectives; the straggler made the
    others wait longest in all. The cause is what exceeds the other ranks' median before it comes:
    its compute, its host, its data loader, its copies.
    """
    ranks = [each for each in query.found.ranks if each.wait_ns is not None]
    if not ranks:
        raise Unknown(NO_WAITS)
    by_count = query.args.get("last", "last") == "last"
    first = max(ranks, key=lambda each: _weight(each, by_count))
    if not _weight(first, by_count):
        verdict = "hit" if "no" in query.args else "miss"
        return query.complete(Measurement(verdict, "no rank came last beyond the clocks' error"))
    right = "no" not in query.args and first.rank == query.args["number"].value
    if "cause" in query.args:
        right = right and first.cause == query.args["cause"]
    verdict = "hit" if right is ("not" not in query.args) else "miss"
    rest = sorted(ranks, key=lambda each: -_weight(each, by_count))[:4]
    lines = [
        _last_text(each, query.per)
        for each in rest
        if each is not first and _weight(each, by_count)
    ]
    return query.complete(Measurement(verdict, _last_text(first, query.per), lines=tuple(lines)))


_COUNTS: dict[str, tuple[Callable[[JobDocument], int | None], str]] = {
    "missing": (
        lambda found: found.job.missing if found.job.world_size is not None else None,
        "no header has the world size",
    ),
    "world": (lambda found: found.job.world_size, "no header has the world size"),
    "ranks": (lambda found: found.job.ranks, ""),
    "hosts": (lambda found: found.job.hosts or None, "no file names its host"),
    "steps": (lambda found: len(found.job.steps), ""),
    "unreadable": (lambda found: len(found.left_out), ""),
}


@prediction(
    "size",
    40,
    "world [size] {compare:compare} {amount:count}",
    "missing ranks {compare:compare} {amount:count}",
    "unreadable files|traces {compare:compare} {amount:count}",
    *(f"{word} {{compare:compare}} {{amount:count}}" for word in ("ranks", "hosts", "steps")),
    *(f"[{{compare:phrase}}] {{amount:count}} {word}" for word in ("ranks", "hosts", "steps")),
)
def _size(query: JobQuery) -> Measurement:
    """How large the job is: its world size, the ranks that were read, hosts, steps, lost files.

    The world size is what the headers say; `ranks` counts the traces that were read.
    """
    what = next(name for name in _COUNTS if name in query.args)
    count, absent = _COUNTS[what][0](query.found), _COUNTS[what][1]
    if count is None:
        raise Unknown(absent)
    verdict = query.args.get("compare", EQUALS).of(count, query.args["amount"])
    return Measurement(verdict, count_text(count))


def _row(row: JobNetwork) -> str:
    size = "" if row.group_size is None else f", {plural(row.group_size, 'rank')}"
    return f"{row.collective}, {bytes_text(row.message_bytes)}{size}, n = {count_text(row.count)}"


_BANDWIDTH = "[bus|algorithm|network] bandwidth {compare:compare} {amount:bandwidth}"
# name -> how people write it
_COLLECTIVES = phrases("""
all-reduce = all-reduce; allreduce; all_reduce; all reduce
all-gather = all-gather; allgather; all_gather; all gather
reduce-scatter = reduce-scatter; reducescatter; reduce_scatter; reduce scatter
all-to-all = all-to-all; alltoall; all_to_all; all to all
broadcast = broadcast
reduce = reduce
gather = gather
scatter = scatter
send = send; sends
receive = receive; recv; receives
""")


@prediction(
    "network",
    50,
    f"[{{collective:collective}}] {_BANDWIDTH}",
    f"{{quantifier:quantifier}} [{{collective:collective}}] {_BANDWIDTH}",
    slots={
        "collective": Slot(
            "all-reduce, all-gather, reduce-scatter, all-to-all, …", one_phrase(_COLLECTIVES)
        )
    },
)
def _network(query: JobQuery) -> Measurement:
    """How fast the network is: bus and algorithm bandwidth, as nccl-tests computes them.

    The transfer alone counts, from the moment the last rank came: a rank that is late makes no
    network slow. `all-reduce bus bandwidth` is the median of the largest messages of that
    collective; without a collective, those that move the most bytes. `every` means every size and
    group.
    """
    wanted, by_bus = query.args.get("collective"), query.args.get("bus", "bus") == "bus"
    rows = [row for row in query.found.network if wanted in (None, row.collective)]
    rates = [row.bus_gbps if by_bus else row.algorithm_gbps for row in rows]
    pairs = zip(rates, rows, strict=True)
    known = [(rate * 1e9, row) for rate, row in pairs if rate is not None]
    if not known:
        what = f"{wanted} " if wanted else ""
        raise Unknown(f"no {what}collective of this job has a size and a transfer time")
    limit: Amount = query.args["amount"]
    if "quantifier" in query.args:
        answers = [query.args["compare"].of(rate, limit) == "hit" for rate, _ in known]
        verdict = judge_all(query.args["quantifier"], answers, len(known) < len(rows))
    else:
        rate, row = max(known, key=lambda pair: (pair[1].message_bytes * pair[1].count, pair[0]))
        known, verdict = [(rate, row)], query.args["compare"].of(rate, limit)
    known.sort(key=lambda pair: pair[0])
    slowest, fastest = known[0], known[-1]
    more = "" if slowest is fastest else f" to {TEXTS['bandwidth'](fastest[0])}"
    measured = f"{TEXTS['bandwidth'](slowest[0])}{more} ({_row(slowest[1])})"
    lines = tuple(f"{TEXTS['bandwidth'](rate):>10}  {_row(row)}" for rate, row in known[:LISTED])
    return Measurement(verdict, measured, lines=lines if verdict == "miss" else ())
