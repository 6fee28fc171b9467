"""Guess what three programs do, then see what foretrace tells."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from foretrace.cli import _options as use

if TYPE_CHECKING:
    from foretrace.trace.trace import Trace

THEN = "Now look: the MLP of the last question as it is, and what compiling changed."
EAGER, COMPILED = (f"mlp_{form}_64x128x768x3072_bf16" for form in ("eager", "compiled"))


@click.command("tour", epilog="See: foretrace docs quick-start")
@use.shown("--card", "The GPU whose recordings to read.", default="h200")
@use.flag("--no-ask", "Ask nothing and tell at once, as without a terminal.")
@use.shown("-o --out", "File of the report.", default="traces/tour.html")
@use.opens_trace
def command(card: str, no_ask: bool, out: str, reading: use.Reading) -> int:
    """Guess how many kernels three programs launch, then see what foretrace tells about one.

    The first question of three lessons is asked, and answered at once: two minutes. Then foretrace
    looks at the eager MLP, compares it with the compiled one, shows what try measured on a training
    script, counts which claims of the articles hold, and writes a report. It reads recordings, and
    needs no torch and no GPU.
    """
    from foretrace.learn.ladder.climb import climb_recorded
    from foretrace.learn.lessons import lessons
    from foretrace.learn.lessons.lines import claims_text, next_text
    from foretrace.read import recordings

    paths = recordings.ladder(card)
    _guesses(reading, asks=not no_ask and sys.stdin.isatty() and sys.stdout.isatty())
    click.echo(f"\n{THEN}")
    traces = [reading.trace(str(paths[name])) for name in (EAGER, COMPILED)]
    _part("The look", lambda: _look(str(paths[EAGER]), reading))
    _part("The comparison", lambda: _compared(traces))
    _part("The try", _tried)
    _part("The ladder", lambda: claims_text(climb_recorded(card), card, use.width()))
    _part("The report", lambda: _report(traces, card, out))
    click.echo(f"\n{next_text(len(lessons()))}")
    return 1 if reading.fails(*traces) else 0


def _guesses(reading: use.Reading, *, asks: bool) -> None:
    """The questions: asked one by one, or told with their answers."""
    from foretrace.cli.lesson import ask
    from foretrace.learn.lessons import tour
    from foretrace.learn.lessons.lines import asked_text, end_text, told_text, tour_title
    from foretrace.learn.lessons.sitting import Sitting, right_answer

    sitting = Sitting(tour(), reading.trace)
    click.echo(tour_title(asks=asks, bold=use.shows_bold()))
    while asks and sitting.step and ask(sitting):
        pass
    if asks:
        click.echo(f"\n{end_text(sitting.document())}")
        return
    while step := sitting.step:
        click.echo(f"\n{asked_text(sitting.asked(sitting.at), bold=use.shows_bold())}")
        click.echo(told_text(sitting.answer(right_answer(step, sitting.scene(step)))))


def _part(name: str, text: Callable[[], str]) -> None:
    """One part of the tour; a part that cannot run prints one line, and the tour continues."""
    from foretrace.base.errors import ForetraceError

    try:
        click.echo(f"\n{text()}")
    except (ForetraceError, OSError) as problem:
        click.echo(f"\n{name} is left out: {str(problem).splitlines()[0]}")


def _look(path: str, reading: use.Reading) -> str:
    from foretrace.base.tables import text
    from foretrace.look.lines import first_screen
    from foretrace.look.reading import overview_of

    found = overview_of(path, cache=reading.cache, limits=reading.limits)
    page = text(first_screen(found, use.width()), bold=use.shows_bold(), width=use.width())
    return f"$ foretrace look {EAGER}\n{page}"


def _compared(traces: Sequence[Trace]) -> str:
    from foretrace.compare import compare
    from foretrace.compare.lines import comparison_text

    page = comparison_text(compare(*traces), 0, width=use.width(), bold=use.shows_bold())
    return f"$ foretrace compare {EAGER} {COMPILED}\n{page}"


def _tried() -> str:
    from foretrace.learn.lessons.lines import tried_text
    from foretrace.read import recordings
    from foretrace.read.door import TryResult, open_any

    [(name, file)] = recordings.tries().items()
    result = open_any(file)
    assert isinstance(result, TryResult)
    return tried_text(name, result.document, bold=use.shows_bold(), width=use.width())


def _report(traces: Sequence[Trace], card: str, out: str) -> str:
    from pathlib import Path

    from foretrace.learn.ladder.climb import climb_recorded
    from foretrace.pages import write_report

    Path(out).parent.mkdir(parents=True, exist_ok=True)
    climb = climb_recorded(card, ("mlp",))
    return f"The report on both: {write_report(out, traces, ladder=climb)}"
