"""Read: Show which rank makes the others wait, and what is exposed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from foretrace.base.errors import UsageError
from foretrace.cli._options import (
    PATH,
    Reading,
    answer_in_sections,
    chosen_parts,
    flag,
    in_forms,
    new_file,
    on_ray,
    opens_trace,
    say,
    shown,
    width,
)

if TYPE_CHECKING:
    from foretrace.analyze.jobs.lanes import JobLanes
    from foretrace.analyze.jobs.whole_job import Job
    from foretrace.schema.documents.job import JobDocument
    from foretrace.show.render.terminal import Section


@click.command("job", epilog="See: foretrace docs jobs")
@click.argument("traces", type=PATH)
@in_forms
@click.option("--ranks", metavar="0-63,80", help="Read these ranks alone.")
@click.option("--steps", metavar="3-5", help="Answer for these steps alone.")
@flag("--stragglers", "Every rank and host: how often last, what it delays, and why.")
@flag("--exposed", "Compute and communication per rank and step; overlap; pipeline bubbles.")
@flag("--path", "The critical path through one step, and what a change would save.")
@flag("--network", "Bandwidth by collective, size and group; what is slower than its equals.")
@flag("--same", "Whether the traces are one job; clocks; files that were not read.")
@flag("--all", "Everything.")
@shown("--top", default=20, type=click.IntRange(0), help="How many rows of a table to list.")
@click.option("--timeline", metavar="0,17", help="Lay these ranks side by side, clocks aligned.")
@click.option("--html", metavar="FILE", help="Write a page: ranks by steps, and a timeline.")
@click.option("--perfetto", metavar="FILE", help="Write the ranks as one trace, clocks aligned.")
@flag("--overwrite", "Replace a file of that name.")
@opens_trace
@on_ray
def command(
    traces: str,
    form: str,
    ranks: str | None,
    steps: str | None,
    top: int,
    timeline: str | None,
    html: str | None,
    perfetto: str | None,
    overwrite: bool,
    reading: Reading,
    **wanted: bool,
) -> int:
    """Show which rank makes the others wait and why, what is exposed, and what to do first.

    TRACES is a folder or zip with one trace per rank, or a place in a store (s3://, gs://, hf://).
    The files are reduced one at a time, by all cores of this machine or by a Ray cluster.

    \b
    foretrace job traces/
    foretrace job s3://bucket/run --ray auto
    foretrace job traces/ --ranks 0-63 --steps 3-5 --json
    foretrace job traces/ --timeline 0,17 --html job.html
    """
    from foretrace.analyze.jobs.reading import numbers
    from foretrace.show.overview.job_verdict import overview_of_job

    if timeline is not None and form == "json" and not (html or perfetto):
        raise UsageError("--json has no timeline: add --html FILE or --perfetto FILE")
    chosen = numbers("--timeline", timeline)
    for path in filter(None, (html, perfetto)):
        new_file(path, overwrite=overwrite)
    with reading.job(traces, ranks, steps) as job:
        found = overview_of_job(job)
        beside = _lanes(job, found, chosen) if chosen or html or perfetto else None
    if beside is not None:
        _write(found, beside, html, perfetto)
    drawn = beside if chosen else None
    answer_in_sections(form, found, lambda: _page(found, wanted, top, drawn))
    return 1 if reading.strict and _odd(found) else 0


def _lanes(job: Job, found: JobDocument, chosen: frozenset[int] | None) -> JobLanes:
    """The chosen ranks side by side, or those that matter most."""
    from foretrace.analyze.jobs.lanes import default_ranks, lanes

    return lanes(job, chosen or default_ranks(found))


def _write(found: JobDocument, beside: JobLanes, html: str | None, perfetto: str | None) -> None:
    """Write the page and the trace for Perfetto, where they are wanted."""
    from pathlib import Path

    from foretrace.base.files import write_text
    from foretrace.show.html.job_report import job_html
    from foretrace.show.share.perfetto import write_ranks

    if html is not None:
        write_text(Path(html), job_html(found, beside))
        say(f"wrote {html}")
    if perfetto is not None:
        write_ranks(beside, Path(perfetto))
        say(f"wrote {perfetto}: open it at ui.perfetto.dev")


def _page(
    found: JobDocument, wanted: dict[str, bool], top: int, beside: JobLanes | None
) -> list[Section]:
    from foretrace.show.render import job_page
    from foretrace.show.render.job_timeline import job_timeline

    names = chosen_parts(wanted, job_page.PARTS)
    page = job_page.sections(found, names, top) if names else job_page.first_screen(found, width())
    if beside is None:
        return page
    return [*page, job_timeline(beside, found.path.step if found.path else None, width())]


def _odd(found: JobDocument) -> bool:
    """Whether a file was not read, lost data, or does not fit the others."""
    said = [each.severity for each in found.notes] + [each.severity for each in found.same]
    return bool(found.left_out) or any(severity != "info" for severity in said)
