"""What a rank does in a step: compute, exposed communication, waits, copies, idle time.

Shares are of the rank's step time, times are means per step, as in the table of `foretrace job`.
Exposed communication runs without compute under it; `wait` is the time in collectives until the
last rank came, `transfer` the rest; `overlap` is the share of the communication that compute hides.
Without a rank the median over the ranks is meant.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from operator import attrgetter

from foretrace.analyze.guess.grammar import Slot, one_phrase, phrases
from foretrace.analyze.guess.job_kinds import LISTED, JobQuery, named
from foretrace.analyze.guess.kinds import GuessKind, Measurement, judge_all
from foretrace.analyze.guess.windows import NoSuchPlace, Unknown
from foretrace.base.units import percent_text, plural, time_text
from foretrace.schema.documents.job import JobRank


def _comms(rank: JobRank) -> int | None:
    parts = (rank.exposed_ns, rank.both_ns)
    return None if None in parts else sum(part or 0 for part in parts)


_TIMES: dict[str, Callable[[JobRank], int | None]] = {
    "step time": attrgetter("wall_ns"),
    "compute": attrgetter("compute_ns"),
    "exposed comms": attrgetter("exposed_ns"),
    "comms": _comms,
    "overlap": attrgetter("both_ns"),
    "copies": attrgetter("copy_ns"),
    "idle": attrgetter("idle_ns"),
    "data": attrgetter("data_ns"),
    "host": attrgetter("host_ns"),
    "wait": attrgetter("wait_ns"),
    "transfer": attrgetter("transfer_ns"),
}


def measure(query: JobQuery) -> Measurement:
    """Judge every rank, some, none, one, or the median over all."""
    values = {each.rank: _value(query, each) for each in query.found.ranks}
    if "number" in query.args:
        number = int(query.args["number"].value)
        if number not in values:
            raise NoSuchPlace(f"no rank {number} in this job; it has {_ranks(query)}")
        return _single(query, values[number])
    if "quantifier" in query.args:
        return query.complete(_all(query, values))
    known = [value for value in values.values() if value is not None]
    return query.complete(_single(query, statistics.median(known) if known else None))


def _value(query: JobQuery, rank: JobRank) -> float | None:
    """The quantity of one rank; None where its trace does not have it."""
    quantity = query.args["quantity"]
    time = _TIMES[quantity](rank)
    if "share" not in query.args:
        return time
    whole = _comms(rank) if quantity == "overlap" else rank.wall_ns
    return None if time is None or not whole else time / whole


def _single(query: JobQuery, value: float | None) -> Measurement:
    if value is None:
        raise Unknown(f"the traces do not have it: {query.args['quantity']}")
    return Measurement(query.judge(value), _text(query, value))


def _all(query: JobQuery, values: dict[int, float | None]) -> Measurement:
    answers = [None if value is None else query.judge(value) == "hit" for value in values.values()]
    verdict = judge_all(query.args["quantifier"], answers, unclear=False)
    known = {rank: value for rank, value in values.items() if value is not None}
    if not known:
        raise Unknown(f"the traces do not have it: {query.args['quantity']}")
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


def _ranks(query: JobQuery) -> str:
    numbers = [each.rank for each in query.found.ranks]
    shown = ", ".join(map(str, numbers[:LISTED]))
    return shown + (f" and {len(numbers) - LISTED:,} more" if len(numbers) > LISTED else "")


_LIMITS = ("{share:share}", "{time:time}")
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
JOB_KIND = GuessKind(
    "ranks",
    10,
    tuple(
        pattern.format(limit=limit)
        for pattern in (
            "{{quantifier:quantifier}} rank|ranks [:|has|have] {{quantity:quantity}} "
            "{{compare:compare}} {limit}",
            "rank {{number:count}} [:|has] {{quantity:quantity}} {{compare:compare}} {limit}",
            "{{quantity:quantity}} {{compare:compare}} {limit} on|in|for "
            "{{quantifier:quantifier}} rank|ranks",
            "{{quantity:quantity}} {{compare:compare}} {limit} on|in|for rank {{number:count}}",
            "[median] [rank] [:] {{quantity:quantity}} {{compare:compare}} {limit}",
        )
        for limit in _LIMITS
    ),
    measure,
    slots={
        "quantity": Slot(
            "of a job's ranks: step time, compute, exposed comms, comms, overlap, copies, idle, "
            "data, host, wait, transfer",
            one_phrase(_QUANTITIES),
        ),
    },
)
