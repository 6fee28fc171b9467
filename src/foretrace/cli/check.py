"""Check predictions about a trace: hit, miss or unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from foretrace.base.errors import UsageError, in_ci
from foretrace.cli import _options as use

if TYPE_CHECKING:
    from foretrace.check.marking import Given
    from foretrace.check.verdict import Verdict
    from foretrace.read.door import Opened

Marked = tuple["list[Verdict]", bool]  # and whether --strict was given and data was lost


@click.command("check", epilog="See: foretrace docs check")
@click.argument("trace", type=use.PATH)
@click.argument(
    "predictions", nargs=-1, metavar="[PREDICTION]...", shell_complete=use.complete_quantities
)
@use.option("--predictions FILE", "Predictions and reasons.", to="files", multiple=True)
@use.option("--against OTHER", "The recording to compare with; predictions call it `a`.")
@use.flag("--all", "Show every prediction and the evidence of every miss.", to="whole")
@use.flag("--need-data", "Exit 1 for unknown predictions as well, as with --strict or in CI.")
@use.in_forms
@use.opens_trace
@use.on_ray
def command(
    trace: str,
    predictions: tuple[str, ...],
    files: tuple[str, ...],
    against: str | None,
    whole: bool,
    need_data: bool,
    form: str,
    reading: use.Reading,
) -> int:
    """Mark each PREDICTION about TRACE: hit, miss or unknown, with what was measured.

    \b
    foretrace check t.json.gz 'kernels == 5' 'gpu.busy > 90%' 'fused(gelu, mul)'
    foretrace check t.json.gz 'in mlp_fwd: time(gemm) / gpu.time > 40%'
    foretrace check new.json.gz 'step.time < 0.9 * a.step.time' --against old.json.gz
    foretrace check t.json.gz

    A number is per step where the trace has steps, and the one that the first screen prints; a
    prediction holds where it holds in every step. `foretrace explain` lists the quantities. Without
    predictions, those that hold now are printed, ready for a test; they name nothing that varies
    from run to run.

    A miss shows the part of the trace that decides it. Where that does not fit one screen, --all
    shows it. The exit code is 1 when a prediction missed. A prediction is unknown when the trace
    does not have the data, or is truncated or damaged: exit 1 with --strict, with --need-data, and
    where the variable CI is set. One that cannot be read, or names a region that the trace does not
    have, stops no other: exit 2.

    A snapshot of torch's allocator has predictions about memory:

    \b
    foretrace check run.memory.pickle 'peak.held(activations) < 10 GB' 'growth(2, 9) <= 0 B'

    A folder, zip or store with several traces is a job, which has quantities of its own:

    \b
    foretrace check traces/ 'max(exposed) < 10%' 'ranks.last == 3'
    """
    from foretrace.check import lines as pages
    from foretrace.check.documents import document
    from foretrace.read.door import NamedFiles, SnapshotFile, TraceFile, TraceFolder

    given: list[Given] = [*predictions]
    if files:
        from foretrace.check.files import load

        given += [pair for file in files for pair in load(file)]
    if not given:
        if against or whole or form == "markdown":
            raise UsageError("give predictions, or the trace alone to see those that hold now")
        return _holding(trace, form, reading)
    found = reading.opened(trace, TraceFile, TraceFolder, SnapshotFile, NamedFiles)
    if not isinstance(found, SnapshotFile) and reading.is_job(found):
        verdicts, lost = _of_job(found, given, against, reading)
    else:
        verdicts, lost = _of_trace(found, given, against, reading)
    text = pages.verdicts_text(verdicts) if whole else pages.verdicts_page(verdicts)
    use.answer(
        form,
        document(verdicts),
        lambda _: pages.coloured(text) if use.shows_bold() else text,
        lambda _: pages.verdicts_markdown(text),
    )
    marks = {verdict.verdict for verdict in verdicts}
    if "error" in marks:
        return 2
    undecided = "unknown" in marks and (reading.strict or need_data or in_ci())
    return 1 if "miss" in marks or undecided or lost else 0


def _holding(trace: str, form: str, reading: use.Reading) -> int:
    """The predictions that hold now, one a line, with its reason behind it."""
    from foretrace.base.tables import encode
    from foretrace.base.terminal import plain
    from foretrace.check.documents import SCHEMA, HeldPrediction, HoldingDocument
    from foretrace.check.holding import holding

    opened = reading.trace(trace)
    use.warn_of_loss(opened)
    held = [HeldPrediction(*pair) for pair in holding(opened)]
    if form == "json":
        click.echo(encode(HoldingDocument(SCHEMA, held)))
    else:
        width = min(max((len(each.text) for each in held), default=0), 60)
        for each in held:
            click.echo(f"{plain(each.text):{width}}  # {plain(each.reason)}")
    return 1 if reading.fails(opened) else 0


def _of_trace(
    found: Opened, given: list[Given], against: str | None, reading: use.Reading
) -> Marked:
    """A trace, or a snapshot of the allocator, which has predictions about memory alone."""
    from foretrace.check import check
    from foretrace.read.door import SnapshotFile

    if isinstance(found, SnapshotFile):
        from foretrace.check.snapshot import check_snapshot
        from foretrace.trace.allocator.view import view_of

        view = view_of(found.path, reading.limits)
        return check_snapshot(view, given), reading.strict and bool(view.snapshot.lost)
    opened = reading.trace(found)
    other = reading.trace(against) if against else None
    use.warn_of_loss(opened, other)
    return check(opened, given, other), reading.fails(opened, other)


def _of_job(job: Opened, given: list[Given], against: str | None, reading: use.Reading) -> Marked:
    from foretrace.check.jobs import JOB, check_job
    from foretrace.check.marking import can_read
    from foretrace.read.door import TraceFolder, one_trace

    texts = [each if isinstance(each, str) else each[0] for each in given]
    if all(can_read(text) and not can_read(text, JOB) for text in texts):
        one_trace(job)  # names the traces to choose from
    jobs = [use.job_at(job, reading)]
    if against:
        jobs.append(use.job_at(reading.opened(against, TraceFolder), reading))
    lost = reading.strict and any(each.left_out for each in jobs)
    return check_job(jobs[0], given, *jobs[1:]), lost
