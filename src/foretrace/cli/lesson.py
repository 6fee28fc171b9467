"""Predict: Be shown a program, predict, and see at once why."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from foretrace.cli._options import Reading, as_json, flag, opens_trace, shows_bold
from foretrace.errors import UsageError

if TYPE_CHECKING:
    from foretrace.lessons.sitting import Sitting


@click.command("lesson", epilog="See: foretrace docs lessons")
@click.argument("number", required=False)
@flag("--list", "List the lessons, and how far you are.")
@flag("--again", "Start at the first question, even where an earlier sitting stopped later.")
@as_json
@opens_trace
def command(
    number: str | None, again: bool, as_json: bool, reading: Reading, **wanted: bool
) -> int:
    """Play lesson NUMBER: ten lines of code, a question, and the answer at once.

    \b
    foretrace lesson --list
    foretrace lesson 1

    Each question is marked on a recording that ships with foretrace: no GPU and no torch is needed.
    `?` prints a hint, `s` skips a question, `b` goes back, `q` stops; the next sitting goes on
    there. With --json the questions go to stderr, and one document to stdout.
    """
    from foretrace.lessons import lesson, lessons, progress
    from foretrace.lessons.progress import KeptLesson
    from foretrace.lessons.sitting import Sitting
    from foretrace.render.lesson import end_text, list_text, title_text
    from foretrace.schema.documents import encode

    if wanted["list"] or number is None:
        kept = progress.read().lessons
        standing = {name: each.text for name, each in kept.items()}
        click.echo(list_text(lessons(), standing))
        return 0
    chosen = lesson(number)
    sitting = Sitting(chosen, reading.trace)
    click.echo(title_text(chosen, bold=shows_bold()), err=as_json)
    earlier = progress.read().lessons.get(chosen.name)
    if earlier and not earlier.finished and not again:
        sitting.resume(earlier.answers)
    while sitting.step and _asked(sitting, as_json):
        answers = sitting.answers[: sitting.at]
        progress.keep(chosen.name, KeptLesson(answers, len(chosen.steps), sitting.hits))
    document = sitting.document()
    click.echo(encode(document) if as_json else f"\n{end_text(document)}")
    return 1 if reading.fails(*sitting.traces) else 0


def _asked(sitting: Sitting, to_stderr: bool) -> bool:
    """Ask the open question until it is answered, skipped or left; False when the reader stops."""
    from foretrace.render.lesson import asked_text, marked_text

    bold, asked = shows_bold(), sitting.asked(sitting.at)
    click.echo(f"\n{asked_text(asked, bold=bold)}", err=to_stderr)
    while True:
        match answer := _typed(to_stderr):
            case None | "q":
                return False
            case "?":
                click.echo(asked.hint, err=to_stderr)
            case "":
                continue
            case "s":
                sitting.skip()
                return True
            case "b":
                sitting.back()
                return True
            case _:
                try:
                    marked = sitting.answer(answer)
                except UsageError as problem:
                    click.echo(str(problem), err=to_stderr)
                else:
                    click.echo(marked_text(marked, bold=bold), err=to_stderr)
                    return True


def _typed(to_stderr: bool) -> str | None:
    """What the reader types; None at the end of the input. A piped answer is shown as if typed."""
    from foretrace.sources.budget import asking

    try:
        with asking():
            answer = str(
                click.prompt(">", default="", show_default=False, prompt_suffix=" ", err=to_stderr)
            )
    except (EOFError, click.Abort):
        click.echo("", err=to_stderr)
        return None
    if not sys.stdin.isatty():
        click.echo(answer, err=to_stderr)
    return answer.strip()
