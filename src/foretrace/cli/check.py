"""Check predictions about a trace: hit, miss or unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from foretrace.base.errors import UsageError, in_ci
from foretrace.cli import _options as use

if TYPE_CHECKING:
    from foretrace.check import Guess
    from foretrace.check.verdict import Verdict
    from foretrace.read.door import Opened


@click.command("check", epilog="See: foretrace docs guess")
@click.argument("trace", type=use.PATH)
@use.option(
    "-g --guess TEXT",
    "A prediction, such as 'in mlp_fwd: kernels == 5'.",
    to="texts",
    multiple=True,
)
@use.option("--guesses FILE.toml", "Predictions and their reasons.", to="files", multiple=True)
@use.option("--against OTHER", "The trace to compare with; predictions call it A.")
@use.flag("--all", "Show every prediction and the evidence of every miss.", to="whole")
@use.flag("--write", "Write the predictions that hold now, as a file for --guesses, to stdout.")
@use.flag("--need-data", "Exit 1 for unknown predictions as well, as with --strict or in CI.")
@use.in_forms
@use.opens_trace
@use.on_ray
def command(
    trace: str,
    texts: tuple[str, ...],
    files: tuple[str, ...],
    against: str | None,
    whole: bool,
    write: bool,
    need_data: bool,
    form: str,
    reading: use.Reading,
) -> int:
    """Mark predictions about TRACE: hit, miss or unknown, each with what was measured.

    \b
    foretrace check t.json.gz -g 'in mlp_fwd: kernels == 5' -g 'gelu and mul are fused'
    foretrace check t.json.gz --guesses guesses.toml --against before.json.gz
    foretrace check t.json.gz --write > guesses.toml

    A miss shows the part of the trace that decides it, and the likely reason where one is known.
    Where that does not fit one screen, --all shows it. The exit code is 1 when a prediction missed.
    A prediction is unknown when the trace does not have the data, or is truncated or damaged: exit
    1 with --strict, with --need-data, and where the variable CI is set. One that cannot be parsed,
    or names a region that the trace does not have, stops no other: exit 2.

    --write takes what does not vary from run to run; with --json as a document of texts and
    reasons. It refuses a cut or damaged trace, which may lack data.

    A snapshot of torch's allocator has predictions about memory:

    \b
    foretrace check run.memory.pickle -g 'activations < 10 GB' -g 'no growth from step 2 to step 9'

    A folder, zip or store with several traces is a job, which has predictions of its own:

    \b
    foretrace check traces/ -g 'every rank: exposed comms < 10%' -g 'rank 3 is last'
    """
    from foretrace.check import lines as pages
    from foretrace.check.guess_files import given
    from foretrace.check.marking import document
    from foretrace.check.parsing import parse_job_or_error, parse_or_error
    from foretrace.read.door import NamedFiles, SnapshotFile, TraceFile, TraceFolder

    if write:
        if texts or files or against or form == "markdown":
            raise UsageError("--write writes predictions of this trace: give it alone, or --json")
        from foretrace.base.tables import encode
        from foretrace.check import baseline

        opened = reading.trace(trace)
        use.warn_of_loss(opened)
        as_json = form == "json"
        click.echo(encode(baseline.document(opened)) if as_json else baseline.write(opened))
        return 1 if reading.fails(opened) else 0
    if not texts and not files:
        raise UsageError("nothing to check: give -g TEXT or --guesses FILE.toml")
    found = reading.opened(trace, TraceFile, TraceFolder, SnapshotFile, NamedFiles)
    if not isinstance(found, SnapshotFile) and reading.is_job(found):
        if against:
            raise UsageError("--against takes one trace: compare jobs with foretrace compare A B")
        verdicts, lost = _of_job(found, given(texts, files, parse_job_or_error), reading)
    else:
        guesses = given(texts, files, parse_or_error)
        verdicts, lost = _of_trace(found, guesses, against, reading)
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


Guesses = Sequence["Guess | Verdict"]
Marked = tuple["list[Verdict]", bool]  # and whether --strict was given and data was lost


def _of_trace(found: Opened, guesses: Guesses, against: str | None, reading: use.Reading) -> Marked:
    """A trace, or a snapshot of the allocator, which has predictions about memory alone."""
    from foretrace.check import check
    from foretrace.check.marking import check_snapshot
    from foretrace.read.door import SnapshotFile
    from foretrace.trace.allocator.view import view_of

    if isinstance(found, SnapshotFile):
        view = view_of(found.path, reading.limits)
        return check_snapshot(view, guesses), reading.strict and bool(view.snapshot.lost)
    opened = reading.trace(found)
    other = reading.trace(against) if against else None
    use.warn_of_loss(opened, other)
    return check(opened, guesses, other), reading.fails(opened, other)


def _of_job(job: Opened, guesses: Guesses, reading: use.Reading) -> Marked:
    from foretrace.check.marking import check_job
    from foretrace.check.parsing import OF_A_TRACE
    from foretrace.check.verdict import Verdict
    from foretrace.read.door import one_trace

    if all(isinstance(guess, Verdict) and OF_A_TRACE in guess.why for guess in guesses):
        one_trace(job)  # names the traces to choose from
    found = use.job_at(job, reading)
    return check_job(found, guesses), reading.strict and bool(found.left_out)
