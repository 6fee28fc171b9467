"""Predict: Answer questions about a trace before you see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from foretrace.base.errors import UsageError
from foretrace.cli._options import PATH, Reading, as_json, opens_trace, warn_of_loss

if TYPE_CHECKING:
    from foretrace.analyze.guess import Guess
    from foretrace.analyze.guess.questions import Question

NOTHING = "it has no GPU operations and no host ops"
QUIT = ("q", "quit")


@click.command("guess", epilog="See: foretrace docs guess")
@click.argument("trace", required=False, type=PATH)
@click.option(
    "--from", "source", metavar="TRACE", help="Write what holds on TRACE as a guess file."
)
@click.option(
    "--answers",
    metavar="FILE",
    help="Take the answers from a file, one per line; an empty line skips a question.",
)
@as_json
@opens_trace
def command(
    trace: str | None, source: str | None, answers: str | None, as_json: bool, reading: Reading
) -> int:
    """Answer a few questions about TRACE before it is shown, then see your answers marked.

    \b
    foretrace guess t.json.gz
    foretrace guess --from t.json.gz > guesses.toml

    An empty answer skips a question; `q` or the end of the input stops, and the answers so far are
    marked. The second form writes the predictions that hold on TRACE now and do not vary from run
    to run, for `foretrace check --guesses`; with --json as a document of texts and reasons. It
    refuses a cut or damaged trace, which may lack data.
    """
    from foretrace.analyze.guess import baseline, check
    from foretrace.analyze.guess.marking import document
    from foretrace.analyze.guess.questions import questions
    from foretrace.schema.documents import encode
    from foretrace.show.render.verdicts import lesson_text

    path = source or trace
    if path is None or (source and (trace or answers)):
        raise UsageError(
            "use `foretrace guess TRACE [--answers FILE]` or `foretrace guess --from TRACE`"
        )
    opened = reading.trace(path)
    lost = reading.fails(opened)
    if source:
        written = encode(baseline.document(opened)) if as_json else baseline.write(opened)
        warn_of_loss(opened)
        click.echo(written)
        return 1 if lost else 0
    asked = questions(opened)
    if not asked:
        raise UsageError(f"no question can be marked on this trace: {opened.ledger.gap or NOTHING}")
    warn_of_loss(opened)
    verdicts = check(opened, _scripted(asked, answers) if answers else _asked(asked))
    click.echo(encode(document(verdicts)) if as_json else lesson_text(verdicts))
    return 1 if lost or any(verdict.verdict == "miss" for verdict in verdicts) else 0


def _asked(questions: list[Question]) -> list[Guess]:
    """Ask each question until it is answered or skipped; `q` or the end of the input stops."""
    guesses: list[Guess] = []
    try:
        for number, question in enumerate(questions, 1):
            guesses += _answer(f"{number} of {len(questions)}. {question.text}", question)
    except (EOFError, click.Abort):
        click.echo("", err=True)
    return guesses


def _answer(text: str, question: Question) -> list[Guess]:
    from foretrace.base.budget import asking

    while True:
        with asking():
            answer = str(click.prompt(text, default="", show_default=False, err=True)).strip()
        if answer.lower() in QUIT:
            raise EOFError
        try:
            return [question.guess(answer)] if answer else []
        except UsageError as problem:
            click.echo(str(problem), err=True)


def _scripted(questions: list[Question], path: str) -> Iterator[Guess]:
    from pathlib import Path

    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as problem:
        raise UsageError(
            f"{path}: cannot read the answers: {getattr(problem, 'strerror', None) or problem}"
        ) from problem
    for number, (question, line) in enumerate(zip(questions, lines, strict=False), 1):
        if line.strip().lower() in QUIT:
            return
        try:
            if line.strip():
                yield question.guess(line)
        except UsageError as problem:
            raise UsageError(f"{path}: line {number}: {question.text} {problem}") from problem
