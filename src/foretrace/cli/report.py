"""Write one self-contained HTML page about one trace or several."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from foretrace.base.errors import UsageError
from foretrace.cli import _options as use

if TYPE_CHECKING:
    from pathlib import Path

    from foretrace.look.steering import Steering
    from foretrace.read.door import Opened


@click.command("report", epilog="See: foretrace docs report")
@click.argument("traces", nargs=-1, required=True, type=use.PATH, metavar="TRACE...")
@use.shown("-o --out", "The file to write.", default="report.html")
@use.flag("--overwrite", "Replace a file of that name.")
@use.option("--step", "Open at this step, from 0; else at the typical one.", type=click.IntRange(0))
@use.option("--check TEXT", "A prediction to mark and show; repeatable.", to="texts", multiple=True)
@use.option(
    "--predictions FILE",
    "Predictions from a TOML file, or marked ones: the JSON of foretrace check --json.",
)
@use.option("--ladder FILE", "A climb to show: the JSON of foretrace lab ladder --json.")
@use.option("--tried FILE", "A try to show: the JSON of foretrace try --json.")
@use.steers
@use.opens_trace
@use.on_ray
def command(
    traces: tuple[str, ...],
    out: str,
    overwrite: bool,
    step: int | None,
    texts: tuple[str, ...],
    predictions: str | None,
    ladder: str | None,
    tried: str | None,
    reading: use.Reading,
    steering: Steering,
) -> int:
    """Write one HTML file about one trace, or about several and what changed between them.

    A folder or zip with several traces is a job of many ranks: its page has a heat map of ranks by
    steps. The JSON of foretrace try and a memory snapshot (.pickle) have pages of their own. The
    file holds everything it shows and needs no network: open it from disk, mail it, keep it.
    """
    from foretrace.pages import write_report
    from foretrace.pages.page import write_page
    from foretrace.pages.page_tables import try_html
    from foretrace.pages.report import marked, read_answer
    from foretrace.read.door import NamedFiles, SnapshotFile, TraceFile, TraceFolder, TryResult
    from foretrace.read.tried import TryDocument
    from foretrace.record.lab_documents import LadderDocument

    target = use.new_file(out, overwrite=overwrite)
    alone = step is None and not ladder and not tried
    kinds: list[type[Opened]] = [TraceFile, TraceFolder]
    if len(traces) == 1:
        kinds += [TryResult, SnapshotFile, NamedFiles]
    found = [reading.opened(path, *kinds) for path in traces]
    if isinstance(result := found[0], TryResult):
        if not alone or texts or predictions:
            raise UsageError("the page of a try takes no option of a trace")
        click.echo(str(write_page(target, try_html(result.document), [result.path])))
        return 0
    if isinstance(found[0], SnapshotFile):
        if not alone or texts or predictions:
            raise UsageError("the page of a memory snapshot takes no option of a trace")
        return _memory(found[0].path, target, reading)
    if len(traces) == 1 and reading.is_job(found[0]):
        if not alone:
            raise UsageError("the page of a job has no --step, no --ladder and no --tried")
        return _job(found[0], target, texts, predictions, reading)
    opened = [reading.trace(each) for each in found]
    written = write_report(
        target,
        opened,
        step=step,
        predictions=marked(opened, texts, predictions),
        ladder=read_answer(ladder, LadderDocument, "lab ladder") if ladder else None,
        tried=read_answer(tried, TryDocument, "try") if tried else None,
        steering=steering,
    )
    click.echo(str(written))
    return 1 if reading.fails(*opened) else 0


def _memory(path: str, target: Path, reading: use.Reading) -> int:
    from foretrace.memory import memory_document
    from foretrace.pages.memory_html import memory_html
    from foretrace.pages.page import write_page
    from foretrace.read.snapshot import read_snapshot
    from foretrace.trace.allocator.view import memory_views

    snapshot = read_snapshot(path, reading.limits)
    views = memory_views(snapshot)
    text = memory_html(memory_document(snapshot, views), views)
    click.echo(str(write_page(target, text, [path])))
    return 1 if reading.strict and snapshot.lost else 0


def _job(
    job_path: Opened, target: Path, texts: tuple[str, ...], file: str | None, reading: use.Reading
) -> int:
    from foretrace.base.files import write_text
    from foretrace.check.documents import document
    from foretrace.check.files import load
    from foretrace.check.jobs import check_job
    from foretrace.check.marking import Given
    from foretrace.jobs.lanes import default_ranks, lanes
    from foretrace.jobs.summary import summarize
    from foretrace.pages.job_report import job_html

    given: list[Given] = [*texts, *(load(file) if file else [])]
    with reading.job(job_path) as job:
        found = summarize(job)
        beside = lanes(job, default_ranks(found))
    marked = document(check_job(found, given)) if given else None
    write_text(target, job_html(found, beside, marked))
    click.echo(str(target))
    return 1 if reading.strict and found.left_out else 0
