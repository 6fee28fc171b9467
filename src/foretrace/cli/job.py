"""Show which rank makes the others wait, and what is exposed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from foretrace.base.errors import UsageError
from foretrace.cli import _options as use

if TYPE_CHECKING:
    from foretrace.base.tables import Table


@click.command("job", epilog="See: foretrace docs jobs")
@click.argument("traces", type=use.PATH)
@use.in_tables
@use.option("--ranks 0-63,80", "Read these ranks alone.")
@use.option("--steps 3-5", "Answer for these steps alone.")
@use.flag("--stragglers", "Every rank and host: how often last, what it delays, and why.")
@use.flag("--exposed", "Compute and communication per rank and step; overlap; pipeline bubbles.")
@use.flag("--path", "The critical path through one step, and what a change would save.")
@use.flag("--network", "Bandwidth by collective, size and group; what is slower than its equals.")
@use.flag("--same", "Whether the traces are one job; clocks; files that were not read.")
@use.flag("--all", "Everything.")
@use.shown("--top", "How many rows of a table to list.", default=20, type=click.IntRange(0))
@use.option("--timeline 0,17", "Lay these ranks side by side, clocks aligned.")
@use.option("--html FILE", "Write a page: ranks by steps, and a timeline.")
@use.option("--perfetto FILE", "Write the ranks as one trace, clocks aligned.")
@use.flag("--overwrite", "Replace a file of that name.")
@use.opens_trace
@use.on_ray
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
    reading: use.Reading,
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
    from foretrace.jobs.lanes import default_ranks, lanes
    from foretrace.jobs.reading import numbers
    from foretrace.jobs.summary import summarize
    from foretrace.read.door import NamedFiles, TraceFile, TraceFolder

    if timeline is not None and form == "json" and not (html or perfetto):
        raise UsageError("--json has no timeline: add --html FILE or --perfetto FILE")
    chosen = numbers("--timeline", timeline)
    for path in filter(None, (html, perfetto)):
        use.new_file(path, overwrite=overwrite)
    kinds = (TraceFile, TraceFolder, NamedFiles)
    with reading.job(reading.opened(traces, *kinds, by_name=True), ranks, steps) as job:
        found = summarize(job)
        wanted_ranks = chosen or default_ranks(found)
        beside = lanes(job, wanted_ranks) if chosen or html or perfetto else None
    if beside is not None:
        from pathlib import Path

        from foretrace.base.files import write_text
        from foretrace.pages.export.perfetto import write_ranks
        from foretrace.pages.job_report import job_html

        if html is not None:
            write_text(Path(html), job_html(found, beside))
            use.say(f"wrote {html}")
        if perfetto is not None:
            write_ranks(beside, Path(perfetto))
            use.say(f"wrote {perfetto}: open it at ui.perfetto.dev")
    timeline_of = beside if chosen else None

    def page() -> list[Table]:
        from foretrace.jobs import lines as job_page

        tables = use.parts_page(job_page, found, wanted, top, list(job_page.PARTS))
        if timeline_of is not None:
            step = found.path.step if found.path else None
            tables = [*tables, job_page.job_timeline(timeline_of, step, use.width())]
        return tables

    use.answer_in_tables(form, found, page)
    odd = found.left_out or any(each.severity != "info" for each in (*found.notes, *found.same))
    return 1 if reading.strict and odd else 0
