"""Show what changed between two traces, and whether it pays off."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from foretrace.base.errors import UsageError
from foretrace.cli import _options as use

if TYPE_CHECKING:
    from foretrace.check.language import Prediction
    from foretrace.cli._settings import Settings
    from foretrace.compare.fail_if import Outcome
    from foretrace.read.door import Opened

MOST = 26  # one letter each
_FAIL_IF = (
    "Exit 1 when this holds of B: 'gpu.time > 1.05 * a.gpu.time', 'kernels > a.kernels'. The "
    "language is that of foretrace check; of jobs and tries too. Repeatable; without it those of "
    "[tool.foretrace] in pyproject.toml."
)


@click.command("compare", epilog="See: foretrace docs compare")
@click.argument("a", type=use.PATH)
@click.argument("b", type=use.PATH)
@click.argument("more", nargs=-1, type=use.PATH)
@use.in_forms
@use.option("--region NAME", "Compare the calls of this region (record_function range).")
@use.option(
    "--compile-seconds S",
    "What the change costs once, such as compile time; default: the run record's.",
    type=click.FloatRange(0, 10**9),
)
@use.option("--fail-if CONDITION", _FAIL_IF, to="conditions", multiple=True)
@use.flag("--guess", "Say what changes from A to B before you see it; the replay of A does too.")
@use.option("--answers FILE", "With --guess: answers from a file, one a line; empty ones skip.")
@use.isolated
@use.flag("--times", "Also every time and count, with the noise.")
@use.flag("--kernels", "Also every kernel: same, changed, removed, added.")
@use.flag("--ops", "Also the host ops.")
@use.flag("--all", "Everything: each change as a sentence, times, kernels, ops.")
@use.shown("--top", "Kernels of each kind, and ops, to list.", default=12, type=click.IntRange(1))
@use.opens_trace
@use.on_ray
def command(
    a: str,
    b: str,
    more: tuple[str, ...],
    form: str,
    region: str | None,
    compile_seconds: float | None,
    conditions: tuple[str, ...],
    guess: bool,
    answers: str | None,
    isolated: bool,
    top: int,
    reading: use.Reading,
    **parts: bool,
) -> int:
    """Say which of two traces is faster, and what changed, one change per line.

    A is the baseline; B, and each trace after it, is compared with A. Repeats inside each trace
    (calls of a region that both have, else steps) give the medians and the noise. Times without the
    profiler decide where both traces have a run record; a difference within the noise is
    inconclusive.

    \b
    foretrace compare eager.json.gz compiled.json.gz
    foretrace compare main.json.gz branch.json.gz --fail-if 'gpu.time > 1.05 * a.gpu.time'

    Two folders, zips or stores with several traces are two jobs of many ranks: step time, exposed
    communication, waits, stragglers and the network side by side.

    Two files that foretrace try --json printed are two tries: which fixes no longer pay, and which
    do now.
    """
    from foretrace.cli._settings import settings
    from foretrace.compare import compare, document
    from foretrace.compare.lines import comparison_markdown, comparison_text
    from foretrace.read.door import NamedFiles, TraceFile, TraceFolder, TryResult

    project = settings(isolated=isolated)
    if answers and not guess:
        raise UsageError("--answers goes with --guess")
    wanted = partial(_conditions, conditions, project)
    kinds = (TraceFile, TraceFolder, NamedFiles, TryResult)
    before, after = (reading.opened(path, *kinds) for path in (a, b))
    if isinstance(before, TryResult) or isinstance(after, TryResult):
        measured = [each.document for each in (before, after) if isinstance(each, TryResult)]
        if len(measured) < 2 or more or region or compile_seconds:
            raise UsageError("a try is compared with one other try, and takes no option of a trace")
        from foretrace.compare import tries

        changed = tries.compare_tries(*measured)
        given = wanted("tries")
        outcomes = []
        if given:
            from foretrace.compare.fail_if import of_tries

            outcomes = of_tries(given, changed)
        use.answer_in_tables(form, changed, lambda: tries.page(changed))
        return 1 if _fails(outcomes, form) else 0
    several = [reading.is_job(each) for each in (before, after)]
    if any(several):
        if not all(several) or more or region or compile_seconds:
            raise UsageError("a job is compared with one other job, and takes no option of a trace")
        return _jobs(before, after, form, wanted("jobs"), reading)
    if len(more) > MOST - 2:
        raise UsageError(f"at most {MOST} traces can be compared at once")
    given = wanted("traces")
    traces = [reading.trace(path) for path in (before, after, *more)]
    if guess:
        from foretrace.cli._guess import ahead

        if more or form != "text":
            raise UsageError("--guess takes two traces and answers as text")
        ahead(a, b, answers, reading, as_json=False)
        click.echo("")
    use.warn_of_loss(*traces)
    found = compare(*traces, region=region, compile_seconds=compile_seconds)
    outcomes = []
    if given:
        from foretrace.compare.fail_if import of_traces

        outcomes = of_traces(given, found)
    names = [part for part, is_shown in parts.items() if is_shown]
    use.answer(
        form,
        document(found),
        lambda _: comparison_text(found, top, names, width=use.width(), bold=use.shows_bold()),
        lambda _: comparison_markdown(found, top, names),
    )
    return 1 if _fails(outcomes, form) or reading.fails(*traces) else 0


def _conditions(given: Sequence[str], project: Settings, of: str) -> list[Prediction]:
    """The conditions of the command line, or without any those of the project's file that are about
    such a comparison: a file has one list for traces, jobs and tries.
    """
    if not given and not project.fail_if:
        return []
    from foretrace.compare.fail_if import condition, fitting

    if given:
        return [condition(text, of) for text in given]
    return fitting(project.fail_if, of, project.place("fail-if"))


def _fails(outcomes: list[Outcome], form: str) -> bool:
    """Print each condition, into Markdown as well; whether one of them holds."""
    from foretrace.base.tables import Line, Table, marked
    from foretrace.base.terminal import plain

    lines = [
        Line("FAIL" if each.met else "ok", f"{each.condition}: {each.text}") for each in outcomes
    ]
    for line in lines:
        click.echo(f"{line.label}  {plain(line.text)}", err=True)
    if lines and form == "markdown":
        click.echo("\n" + marked([Table(lines=lines)]))
    return any(outcome.met for outcome in outcomes)


def _jobs(a: Opened, b: Opened, form: str, given: list[Prediction], reading: use.Reading) -> int:
    from foretrace.compare.fail_if import of_jobs
    from foretrace.compare.jobs import compare_jobs, page

    jobs = [use.job_at(path, reading) for path in (a, b)]
    found = compare_jobs(*jobs)
    use.answer_in_tables(form, found, lambda: page(found, use.width()))
    lost = reading.strict and any(job.left_out for job in jobs)
    outcomes = of_jobs(given, *jobs) if given else []
    return 1 if _fails(outcomes, form) or lost else 0
