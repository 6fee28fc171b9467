"""Predict: Answer questions about a trace before you see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from foretrace.cli._lossy import warn_of_loss
from foretrace.cli._options import PATH, as_json, opens_trace

if TYPE_CHECKING:
    from foretrace.guess import Guess
    from foretrace.guess.questions import Question
    from foretrace.schema.verdict import Verdict


NOTHING = "it holds no GPU work and no host ops"


@click.command("guess", epilog="See: foretrace docs guess")
@click.argument("trace", required=False, type=PATH)
@click.option(
    "--from",
    "source",
    metavar="TRACE",
    help="Write the predictions that hold on TRACE as a guess file.",
)
@click.option(
    "--answers",
    metavar="FILE",
    help="Take the answers from a file, one per line; an empty line skips a question.",
)
@as_json
@opens_trace
def command(
    trace: str | None,
    source: str | None,
    answers: str | None,
    as_json: bool,
    no_cache: bool,
    strict: bool,
    limit: tuple[str, ...],
) -> int:
    """Guess first: answer a handful of questions about TRACE before anything of it is shown, then
    see them marked.

    \b
    foretrace guess t.json.gz
    foretrace guess --from t.json.gz > guesses.toml

    An empty answer skips a question, `q` or the end of the input stops; what was answered is
    marked. The second form writes a regression net: predictions that hold now and do not jitter,
    for `foretrace check --guesses`; with --json as a document of texts and reasons. A cut or
    damaged trace is refused: what it holds now is not all there was.
    """
    import json

    from foretrace.errors import UsageError
    from foretrace.opening import open
    from foretrace.sources.limits import parse_limits

    path = source or trace
    if path is None or (source and (trace or answers)):
        raise UsageError(
            "say either `foretrace guess TRACE [--answers FILE]` or `foretrace guess --from TRACE`"
        )
    opened = open(path, cache=not no_cache, limits=parse_limits(limit))
    lost = strict and opened.ledger.lost_data
    if source:
        from foretrace.guess.net import document, write

        written = json.dumps(document(opened), ensure_ascii=False) if as_json else write(opened)
        warn_of_loss(opened)
        click.echo(written)
        return 1 if lost else 0
    from foretrace.guess import check
    from foretrace.guess.questions import questions

    asked = questions(opened)
    if not asked:
        raise UsageError(
            f"this trace decides none of the questions: {opened.ledger.gap or NOTHING}"
        )
    warn_of_loss(opened)
    verdicts = check(opened, _scripted(asked, answers) if answers else _asked(asked))
    _show(verdicts, as_json)
    return 1 if lost or any(verdict.verdict == "miss" for verdict in verdicts) else 0


def _show(verdicts: list[Verdict], as_json: bool) -> None:
    import json

    from foretrace.render.verdicts import document, lesson_text

    click.echo(
        json.dumps(document(verdicts), ensure_ascii=False) if as_json else lesson_text(verdicts)
    )


def _asked(questions: list[Question]) -> list[Guess]:
    """Ask each question until it is answered, skipped or ended."""
    guesses: list[Guess] = []
    try:
        for number, question in enumerate(questions, 1):
            guesses += _answer(f"{number} of {len(questions)}. {question.text}", question)
    except (EOFError, click.Abort):
        click.echo("", err=True)
    return guesses


def _answer(text: str, question: Question) -> Iterator[Guess]:
    from foretrace.errors import UsageError

    while True:
        answer = str(click.prompt(text, default="", show_default=False, err=True)).strip()
        if answer.lower() in ("q", "quit"):
            raise EOFError
        if not answer:
            return
        try:
            yield question.guess(answer)
            return
        except UsageError as problem:
            click.echo(str(problem), err=True)


def _scripted(questions: list[Question], path: str) -> list[Guess]:
    from pathlib import Path

    from foretrace.errors import UsageError

    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as problem:
        raise UsageError(f"{path}: cannot read the answers: {problem}") from problem
    guesses = []
    for number, (question, line) in enumerate(zip(questions, lines, strict=False), 1):
        if line.strip().lower() in ("q", "quit"):
            break
        try:
            guesses += [question.guess(line)] if line.strip() else []
        except UsageError as problem:
            raise UsageError(f"{path}: line {number}: {question.text} {problem}") from problem
    return guesses
