"""How far what foretrace says about a simulated job is from the truth."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from foretrace.jobs.documents import JobDocument
from jobs.plan.answer import Answer


class Distance(Struct, frozen=True):
    """The largest difference over all ranks, steps or groups, in nanoseconds or as a share.

    `straggler` is the rank that the others wait for most, `true_straggler` the one with the largest
    delay in the plan. `beyond_error` counts the clocks that are farther off than they state.
    """

    straggler: int
    true_straggler: int | None
    matched: int
    true_matched: int
    wait_ns: float
    exposed_ns: float
    wall_ns: float
    offset_ns: float
    stated_error_ns: float
    beyond_error: int
    bandwidth: float
    path_ns: float


def distance(document: JobDocument, truth: Answer) -> Distance:
    """Compare a document with the truth."""
    waited, steps, ranks = _waited(truth), truth.plan.steps, document.ranks
    said = Counter({each.rank: each.made_others_wait_ns or 0 for each in ranks})
    clocks = {each.rank: each.clock for each in ranks}
    off = {
        rank: abs((clock.offset_ns or 0) - truth.offsets_ns[rank]) for rank, clock in clocks.items()
    }
    stated = {rank: clock.error_ns or 0 for rank, clock in clocks.items()}
    return Distance(
        straggler=said.most_common(1)[0][0],
        true_straggler=_planted(truth),
        matched=document.matched,
        true_matched=len(truth.collectives),
        wait_ns=max(abs((each.wait_ns or 0) - waited[each.rank] / steps) for each in ranks),
        exposed_ns=max(
            abs(cell.exposed_ns - truth.steps[cell.rank, cell.step].exposed_ns)
            for cell in document.cells
        ),
        wall_ns=max(
            abs(cell.wall_ns - truth.steps[cell.rank, cell.step].wall_ns)
            for cell in document.cells
        ),
        offset_ns=max(off.values()),
        stated_error_ns=max(stated.values()),
        beyond_error=sum(off[rank] > stated[rank] for rank in off),
        bandwidth=_bandwidth(document, truth),
        path_ns=_path(document, truth),
    )  # fmt: skip


def _planted(truth: Answer) -> int | None:
    single = [delay for delay in truth.plan.delays if len(delay.ranks) == 1]
    return max(single, key=lambda delay: delay.ns).ranks[0] if single else None


def _waited(truth: Answer) -> Counter[int]:
    waited: Counter[int] = Counter()
    for met in truth.collectives:
        waited.update(met.waits_ns)
    return waited


def _bandwidth(document: JobDocument, truth: Answer) -> float:
    """By how much of itself the bandwidth of a group is off."""
    rates = {met.group: met.bus_gbps for met in truth.collectives}
    found = [(each.bus_gbps, rates[each.group]) for each in document.network]
    return max((abs((said or 0) - rate) / rate for said, rate in found), default=1.0)


def _path(document: JobDocument, truth: Answer) -> float:
    if document.path is None:
        return float("inf")
    segments = truth.paths[document.path.step]
    return abs(document.path.length_ns - (segments[-1].end_ns - segments[0].start_ns))
