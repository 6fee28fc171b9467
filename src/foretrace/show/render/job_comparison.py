"""Two jobs compared, for people: the verdict, the times with their noise, the network."""

from __future__ import annotations

import os

from foretrace.base.units import (
    DASH,
    bytes_text,
    count_text,
    percent_text,
    plural,
    ratio_text,
    time_text,
)
from foretrace.schema.documents.compare_jobs import CompareJobsDocument, JobChange, NetworkChange
from foretrace.schema.documents.job import JobEntry
from foretrace.show.overview.job_lines import read_text
from foretrace.show.render.terminal import WIDTH, Section, fitted, shorten

NAME = 48  # columns of a job's name
LARGEST = 1_000  # a ratio above is to next to nothing


def job_comparison(found: CompareJobsDocument, width: int = WIDTH) -> list[Section]:
    """The page: as many collectives as fit 25 lines."""
    return fitted(
        lambda rows: [_head(found), *_network(found.network, rows)], len(found.network), width
    )


def _head(found: CompareJobsDocument) -> Section:
    sides = [("A", found.a, found.steps_a), ("B", found.b, found.steps_b)]
    named = [(letter, _side(job, steps)) for letter, job, steps in sides]
    verdict = (found.verdict.answer.upper(), found.verdict.text)
    return Section(
        "",
        labelled=[*named, verdict, ("LAST", found.last)],
        head=["per step", "A", "B", "B / A", "noise"],
        rows=[_cells(row) for row in found.times],
        after="step: the longest rank; the rest: means over the ranks",
    )


def _side(job: JobEntry, steps: int) -> str:
    name = shorten(os.path.basename(job.path.rstrip("/")) or job.path, NAME)
    return f"{name} · {read_text(job)} · {plural(steps, 'whole step')}"


def _cells(row: JobChange) -> list[str]:
    noise = percent_text(row.noise) + (", within it" if row.beyond is False else "")
    ratio = ratio_text(row.ratio if (row.ratio or 0) < LARGEST else None)
    return [row.what, time_text(row.a), time_text(row.b), ratio, noise]


def _network(rows: list[NetworkChange], most: int) -> list[Section]:
    if not most:
        return []
    left = len(rows) - most
    return [
        Section(
            "Bus bandwidth, GB/s",
            head=["collective", "dtype", "message", "ranks", "A", "B", "B / A"],
            rows=[_network_cells(row) for row in rows[:most]],
            left=(0, 1),
            after=f"and {count_text(left)} more (--json)" if left else "",
        )
    ]


def _network_cells(row: NetworkChange) -> list[str]:
    rates = [DASH if rate is None else f"{rate:.3g}" for rate in (row.a, row.b)]
    what = [row.collective, row.dtype, bytes_text(row.message_bytes), count_text(row.group_size)]
    return [*what, *rates, ratio_text(row.ratio)]
