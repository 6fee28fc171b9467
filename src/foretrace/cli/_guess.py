"""`--guess`: questions about a recording before it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretrace.base.errors import UsageError
from foretrace.cli import _options as use

if TYPE_CHECKING:
    from foretrace.check.documents import MarkedAnswer
    from foretrace.check.questions import Question
    from foretrace.compare.forecast import AskedForecast
    from foretrace.trace.trace import Trace

    Asked = Question | AskedForecast

NOTHING = "it has no GPU operations and no host ops"
QUIT = ("q", "quit")


def guessed(trace: Trace, answers: str | None) -> list[MarkedAnswer]:
    """Ask about a trace before anything of it is shown; the answers beside the real numbers."""
    from foretrace.check.questions import marked, questions

    asked = questions(trace)
    if not asked:
        raise UsageError(f"no question can be marked on this trace: {trace.ledger.gap or NOTHING}")
    return marked(asked, {one.name: text for one, text, _ in _answered(asked, answers)})


def ahead(
    trace: str, then: str, answers: str | None, reading: use.Reading, *, as_json: bool
) -> int:
    """Ask about the next trace; where only the change is known, print the answers."""
    from foretrace.base.tables import text
    from foretrace.compare.forecast import asked, forecast, page, questions_page
    from foretrace.look.fixes import fixes

    a = reading.trace(trace)
    use.warn_of_loss(a)
    is_fix = not Path(then).exists() and then in {fix.name for fix in fixes()}
    b = None if is_fix else reading.trace(then)
    use.warn_of_loss(b)
    questions = asked(a, b)
    known = questions_page(a, then)
    click.echo(text(known, bold=use.shows_bold(), width=use.width()), err=True)
    found = list(_answered(questions, answers))
    if b is None:
        texts = {question.name: said for question, said, _ in found}
        click.echo("\n".join(texts.get(question.name, "") for question in questions))
        return 1 if reading.fails(a) else 0
    document = forecast(a, b, {question.name: guess for question, _, guess in found})
    use.answer_in_tables("json" if as_json else "text", document, lambda: page(document))
    missed = any(each.you and each.you.verdict == "miss" for each in document.entries)
    return 1 if missed or reading.fails(a, b) else 0


def _answered(questions: Sequence[Asked], path: str | None) -> Iterator[tuple[Any, str, Any]]:
    """Each question that was answered, the answer, and the value that it has.

    Each is asked until it is answered or skipped; `q` or the end of the input stops.
    """
    if path:
        yield from _scripted(questions, path)
        return
    try:
        for number, question in enumerate(questions, 1):
            yield from _answer(f"{number} of {len(questions)}. {question.text}", question)
    except (EOFError, click.Abort):
        click.echo("", err=True)


def _answer(text: str, question: Asked) -> list[tuple[Any, str, Any]]:
    from foretrace.base.budget import asking

    while True:
        with asking():
            answer = str(click.prompt(text, default="", show_default=False, err=True)).strip()
        if answer.lower() in QUIT:
            raise EOFError
        try:
            return [(question, answer, question.answer(answer))] if answer else []
        except UsageError as problem:
            click.echo(str(problem), err=True)


def _scripted(questions: Sequence[Asked], path: str) -> Iterator[tuple[Any, str, Any]]:
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
                yield question, line.strip(), question.answer(line)
        except UsageError as problem:
            raise UsageError(f"{path}: line {number}: {question.text} {problem}") from problem
