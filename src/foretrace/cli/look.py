"""Show what bounds a step, and what to do first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

import click

from foretrace.base.errors import UsageError
from foretrace.base.units import plural
from foretrace.cli import _options as use

if TYPE_CHECKING:
    from foretrace.base.tables import Table
    from foretrace.check.documents import MarkedAnswer
    from foretrace.look.steering import Steering
    from foretrace.read.door import Opened, TraceFolder
    from foretrace.read.ledger import LedgerEntry, NoteEntry

FOLDER = click.Path(exists=True)
CAPTURES = "Traces recorded while CUDA graphs were captured; found by itself beside TRACE."
MOST_BESIDE = 7
EVERY = ("regions", "steps", "kernels", "ops", "modules", "findings")


@click.command("look", epilog="See: foretrace docs look")
@click.argument("trace", required=False, type=use.PATH)
@click.argument("fix", nargs=-1)
@use.in_tables
@use.flag("--kernels", "Every kernel: time, rates, its roof, what limits it.")
@use.flag("--ops", "Host ops: self and total time, kernels and GPU time below.")
@use.flag(
    "--modules", "GPU or CPU time by nn.Module, forward and backward; equal layers are one row."
)
@use.flag("--steps", "Steps and regions.")
@use.flag("--findings", "All findings with their evidence, and what was read.")
@use.option("--region NAME", "One region: its verdict, and what it launches.")
@use.option("--beside TRACE", "The same region of another trace.", type=use.PATH, multiple=True)
@use.option("--explain NAME", "One rule or fix: its evidence and its manual.")
@use.flag("--fixes", "What a step takes after each fix; with FIX names, after all of these.")
@use.flag("--guess", "Answer five questions before you see it; your numbers beside the real ones.")
@use.option("--then B", "With --guess: about the next trace, or after a fix (compile).")
@use.option("--answers FILE", "With --guess: answers from a file, one a line; empty ones skip.")
@use.option(
    "--list [WORD]",
    "List the recordings that ship with foretrace; with WORD all that have it in their name.",
    to="listed",
    is_flag=False,
    flag_value="",
)
@use.flag("--all", "Everything.")
@use.option("--captures FOLDER", CAPTURES, type=FOLDER)
@use.shown("--top", "How many kernels and ops to list.", default=20, type=click.IntRange(0))
@use.steers
@use.opens_trace
def command(
    trace: str | None,
    fix: tuple[str, ...],
    form: str,
    region: str | None,
    beside: tuple[str, ...],
    captures: str | None,
    explain: str | None,
    fixes: bool,
    guess: bool,
    then: str | None,
    answers: str | None,
    listed: str | None,
    top: int,
    reading: use.Reading,
    steering: Steering,
    **wanted: bool,
) -> int:
    """Show what bounds a step, what to do first, and where the GPU time goes.

    The first screen has the verdict, its evidence and the GPU time by what the model's author
    would call it. The options show the rest.

    TRACE is a file, a folder or zip, ARCHIVE.zip::MEMBER, - for stdin, or the name of a recording
    that ships with foretrace (mlp_eager). A folder or zip that holds several traces gives an
    overview: a row for each, how far its ranks differ, and which files cannot be read. The JSON of
    foretrace try is shown as try shows it.

    --fixes replays one typical step with each fix that applies, and ranks them by the predicted
    time: without the profiler, with an interval.

    With --guess five questions come first: `180`, `7 ms`, `15%`, `host` are answers. An empty one
    skips a question; `q` or the end of the input stops. The screen follows, then your numbers
    beside the real ones, and what the largest miss means. With --then the questions are about the
    next trace: its kernels, its memory traffic and its time, from TRACE alone. The replay of TRACE
    answers them too, and both are marked. --then compile prints your answers, to keep in a file for
    --answers until the next trace is there.

    \b
    foretrace look trace.json.gz
    foretrace look trace.json.gz --fixes boolean_mask cuda_graph
    foretrace look eager.json.gz --guess --then compiled.json.gz
    foretrace look --list attention
    """
    if (listed is not None) + fixes + guess > 1:
        raise UsageError("--list, --fixes and --guess are answers of their own: give one of them")
    if (fixes or guess) and (region or beside or explain or any(wanted.values())):
        raise UsageError(f"--{'fixes' if fixes else 'guess'} shows nothing else: look without it")
    if listed is not None:
        from foretrace.cli._recordings import list_recordings

        if trace is not None or form != "text":
            raise UsageError("--list takes neither a trace nor another form: foretrace look --list")
        return list_recordings(listed, reading)
    if trace is None:
        raise UsageError("give a TRACE; foretrace look --list lists the recordings that ship")
    if (then or answers) and not guess:
        raise UsageError("--then and --answers go with --guess")
    if fix and not fixes:
        raise UsageError(f"{fix[0]}: only --fixes takes more words than the trace")
    if guess and form in ("markdown", "csv"):
        raise UsageError("--guess answers as text or with --json")
    if guess and then:
        from foretrace.cli._guess import ahead

        return ahead(trace, then, answers, reading, as_json=form == "json")
    if fixes:
        from foretrace.look.lines import page_of_fixes
        from foretrace.look.savings import predict_fixes

        opened = reading.trace(trace, captures)
        use.warn_of_loss(opened)
        predicted = predict_fixes(opened, fix, steering)
        use.answer_in_tables(form, predicted, lambda: page_of_fixes(predicted))
        return 1 if reading.fails(opened) else 0
    from foretrace.read.door import TraceFile, TraceFolder, TryResult, one_trace

    found = reading.opened(trace, TraceFile, TraceFolder, TryResult)
    if isinstance(found, TryResult):
        from foretrace.record.tries.lines import page as try_page

        document = found.document
        use.answer_in_tables(form, document, lambda: try_page(document))
        return 0
    if beside and (region is None or form == "json" or len(beside) > MOST_BESIDE):
        raise UsageError(
            f"--beside needs --region NAME, at most {MOST_BESIDE} traces, and no --json"
        )
    if isinstance(found, TraceFolder) and len(found.traces) > 1:
        if region is not None or captures is not None:
            option = "--captures" if region is None else "--region"
            raise UsageError(
                f"{found.path} contains {len(found.traces)} traces; choose one for {option}"
            )
        return _several(found, form, reading, steering, whole=any(wanted.values()))
    guesses: list[MarkedAnswer] = []
    if guess:
        from foretrace.base.tables import encode
        from foretrace.check.documents import SCHEMA, GuessDocument
        from foretrace.cli._guess import guessed

        opened = reading.trace(found)
        use.warn_of_loss(opened)
        guesses = guessed(opened, answers)
        if form == "json":
            click.echo(encode(GuessDocument(SCHEMA, guesses)))
            return 1 if reading.fails(opened) else 0
    from foretrace.look.reading import overview_of
    from foretrace.read.run_record import read_run

    path, cache, limits = one_trace(found), reading.cache, reading.limits
    with use.lean():
        overview = overview_of(
            path, cache=cache, limits=limits, captures=captures, steering=steering
        )
    use.warn_of_record(found.path, read_run(path))
    # the document of one trace has no place for files beside it that cannot be read
    left_out = found.problems if isinstance(found, TraceFolder) else []
    use.warn_of_left_out([str(problem) for _, problem in left_out])

    def page() -> list[Table]:
        if region is not None:
            return _region([found, *beside], region, captures, top, reading)
        if explain is not None:
            from foretrace.learn.manual import explained

            return explained(overview.look, explain)
        from foretrace.look import lines

        parts = [name for name in EVERY if name != "modules" or overview.look.modules]
        shown = use.parts_page(lines, overview, wanted, top, parts)
        if guesses:
            from foretrace.check.questions import lines as beside_real

            shown += beside_real(guesses)
        return shown

    use.answer_in_tables(form, overview.look, page)
    return _code(reading, [overview.look.ledger], left_out=len(left_out))


def _several(
    folder: TraceFolder, form: str, reading: use.Reading, steering: Steering, *, whole: bool
) -> int:
    from foretrace.look.reading import look_set
    from foretrace.look.set_lines import first_screen, sections
    from foretrace.trace.opening import shown

    looks = look_set(folder, reading.limits, cache=reading.cache, steering=steering)
    root = shown(folder.path)

    def page() -> list[Table]:
        return sections(root, looks) if whole else first_screen(root, looks, use.width())

    use.answer_in_tables(form, looks, page)
    ledgers = [look.ledger for look in looks.traces]
    return _code(reading, ledgers, looks.notes, len(looks.left_out))


def _region(
    given: Sequence[Opened | str],
    name: str,
    captures: str | None,
    top: int,
    reading: use.Reading,
) -> list[Table]:
    """The region of a trace; with others, what it launches in each, side by side."""
    from foretrace.learn.ladder import rungs
    from foretrace.look.groups import of_region
    from foretrace.look.lines import beside_page, region_page

    traces = [reading.trace(each, captures if each is given[0] else None) for each in given]
    if len(traces) == 1:
        return region_page(traces[0], name, top)
    columns = []
    for trace in traces:
        sequences = of_region(trace, name)
        if not sequences:
            raise UsageError(f"{name} launches nothing in {trace.path}")
        title = PurePath(trace.path).name.removesuffix(".gz").removesuffix(".json")
        columns.append((title, sequences[0]))
    recorded = traces[0].run.rung.name
    layers = next((rung.layers for rung in rungs() if rung.name == recorded), ())
    return beside_page(name, columns, layers)


def _code(
    reading: use.Reading,
    ledgers: Sequence[LedgerEntry],
    notes: Sequence[NoteEntry] = (),
    left_out: int = 0,
) -> int:
    """1 where --strict was given and something is odd, which is then named."""
    every = [*notes, *(note for ledger in ledgers for note in ledger.notes)]
    odd = list(dict.fromkeys(note.code for note in every if note.severity != "info"))
    for how in ("repaired", "skipped"):
        if count := sum(getattr(ledger, how) for ledger in ledgers):
            odd.append(f"{plural(count, 'record')} {how}")
    if left_out:
        odd.append(f"{plural(left_out, 'file')} left out")
    if not (reading.strict and odd):
        return 0
    use.say(f"--strict: {', '.join(odd)}")
    return 1
