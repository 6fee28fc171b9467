"""How fast the network is: bus and algorithm bandwidth, as nccl-tests computes them.

The transfer alone counts, from the moment the last rank came: a rank that is late makes no network
slow. `all-reduce bus bandwidth` is the median of the largest messages of that collective; without a
collective, those that move the most bytes. `every` means every size and group.
"""

from __future__ import annotations

from foretrace.analyze.guess.grammar import Slot, one_phrase, phrases
from foretrace.analyze.guess.job_kinds import LISTED, JobQuery
from foretrace.analyze.guess.kinds import GuessKind, Measurement, judge_all
from foretrace.analyze.guess.windows import Unknown
from foretrace.analyze.guess.words import Amount
from foretrace.base.units import bytes_text, count_text, plural
from foretrace.schema.documents.job import JobNetwork


def measure(query: JobQuery) -> Measurement:
    """Judge `all-reduce bus bandwidth > 100 GB/s`, on the largest messages or on every size."""
    wanted, by_bus = query.args.get("collective"), query.args.get("bus", "bus") == "bus"
    rows = [row for row in query.found.network if wanted in (None, row.collective)]
    known = [(rate * 1e9, row) for row in rows if (rate := _rate(row, by_bus)) is not None]
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
    more = "" if slowest is fastest else f" to {_speed(fastest[0])}"
    measured = f"{_speed(slowest[0])}{more} ({_row(slowest[1])})"
    lines = tuple(f"{_speed(rate):>10}  {_row(row)}" for rate, row in known[:LISTED])
    return Measurement(verdict, measured, lines=lines if verdict == "miss" else ())


def _rate(row: JobNetwork, by_bus: bool) -> float | None:
    return row.bus_gbps if by_bus else row.algorithm_gbps


def _speed(rate: float) -> str:
    return f"{bytes_text(rate)}/s"


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
JOB_KIND = GuessKind(
    "network",
    50,
    (
        f"[{{collective:collective}}] {_BANDWIDTH}",
        f"{{quantifier:quantifier}} [{{collective:collective}}] {_BANDWIDTH}",
    ),
    measure,
    slots={
        "collective": Slot(
            "all-reduce, all-gather, reduce-scatter, all-to-all, …", one_phrase(_COLLECTIVES)
        )
    },
)
