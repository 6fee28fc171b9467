"""What to do first about a job: the repairs that its traces prove, by largest possible saving."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from foretrace.overview.job_words import CAUSES, rank_text
from foretrace.overview.repairs import WORTH
from foretrace.schema.documents.job import JobDocument, JobHost, JobRank
from foretrace.units import ratio_text, time_text

# a job step has several causes of delay; a GPU that is slower by less than this is within what
# equal cards differ by
SLOWER = 1.03


class JobRepair(Struct, frozen=True):
    """Something to do, what it saves at most per step, and the estimate of a replay."""

    text: str
    saves_ns: int
    replayed: str = ""

    @property
    def sentence(self) -> str:
        """With what it saves."""
        return f"{self.text}; saves at most {time_text(self.saves_ns)} per step{self.replayed}"


def worth_ns(document: JobDocument) -> float:
    """The least saving per step that is worth a line: 1% of the step."""
    return max(WORTH * (document.job.step_ns or 0), 1)


def stragglers(document: JobDocument) -> list[JobRank]:
    """The ranks that delay a step by 1% or more for a known cause, the worst first."""
    least = worth_ns(document)
    found = [row for row in document.ranks if (row.delays_ns or 0) >= least and row.cause in CAUSES]
    return sorted(found, key=lambda row: -(row.delays_ns or 0))


def slow_hosts(document: JobDocument) -> list[JobHost]:
    """The hosts whose ranks are all late, the worst first."""
    least = worth_ns(document)
    found = [row for row in document.hosts if row.slow and row.delays_ns >= least]
    return sorted(found, key=lambda row: -row.delays_ns)


def repairs(document: JobDocument) -> list[JobRepair]:
    """Repairs worth 1% of a step, the largest first; nothing is saved twice."""
    found = [*_late(document), *_exposed(document), *_pipeline(document)]
    return sorted(
        (each for each in found if each.saves_ns >= worth_ns(document)),
        key=lambda each: -each.saves_ns,
    )


def _late(document: JobDocument) -> Iterator[JobRepair]:
    """A slow host, or else each rank that comes last."""
    hosts = slow_hosts(document)
    for host in hosts:
        yield JobRepair(
            f"inspect host {host.host}: its {host.ranks} ranks come late",
            host.delays_ns,
        )
    slow = {host.host for host in hosts}
    for row in stragglers(document):
        if not row.host or row.host not in slow:
            yield JobRepair(_of_rank(row), row.delays_ns or 0, _replayed(document, row.rank))


def _replayed(document: JobDocument, rank: int) -> str:
    """What the median step would save if the rank were at the median."""
    path = document.path
    for change in path.what_ifs if path else []:
        if change.rank == rank and path and path.step >= 0:
            return f" ({time_text(change.saves_ns)} in a replay of step {path.step})"
    return ""


def _of_rank(row: JobRank) -> str:
    who = rank_text(row)
    look = "its trace" if "://" in row.path else f"foretrace look {shlex.quote(row.path)}"
    if row.slow == "gpu":
        ratio = f" {ratio_text(row.kernel_ratio)} as long" if row.kernel_ratio else " longer"
        return f"inspect the GPU of {who} (clocks, power, heat): the same kernels take{ratio}"
    if row.slow == "code":
        return f"balance the work: {who} runs more or other kernels than its peers"
    return {
        "data": f"feed {who} faster (workers, prefetch, pin_memory): its GPU waits for data",
        "host": f"see what the host of {who} does while its GPU idles: {look}",
        "copies": f"see what {who} copies before its collectives: {look}",
        "other_comms": f"see what {who} does in its other groups before: {look}",
        "compute": f"see what {who} computes longer than the others: {look}",
    }.get(row.cause, f"see what delays {who}: {look}")


def _exposed(document: JobDocument) -> Iterator[JobRepair]:
    """What compute could hide of the transfers; waits for late ranks are another repair's."""
    kinds = Counter[str]()
    for row in document.overlap:
        alone = row.exposed_ns - (row.wait_ns or 0)
        kinds[row.collective] += round(alone * row.ranks / max(document.job.ranks, 1))
    for kind, alone in kinds.most_common(1):
        most = min(alone, document.perfect_overlap_ns or 0)
        yield JobRepair(f"overlap {kind} with compute: {time_text(alone)} per step is alone", most)


def _pipeline(document: JobDocument) -> Iterator[JobRepair]:
    for row in sorted(document.bubbles, key=lambda row: -row.bubble_ns)[:1]:
        text = f"shorten the pipeline's bubbles (more microbatches): stage {row.stage} idles"
        yield JobRepair(f"{text} {row.share:.0%} of a step", row.bubble_ns)
