"""`look --guess`: questions about a trace before it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretrace.base.errors import UsageError
from foretrace.cli import _options as use

if TYPE_CHECKING:
    from foretrace.check.questions import Question
    from foretrace.compare.forecast import AskedForecast
    from foretrace.trace.trace import Trace

    Asked = Question | AskedForecast

NOTHING = "it has no GPU operations and no host ops"
QUIT = ("q", "quit")


def ask(
    trace: str, then: str | None, answers: str | None, reading: use.Reading, *, as_json: bool
) -> int:
    """Ask about the trace, or about the next one, and mark the answers."""
    opened = reading.trace(trace)
    use.warn_of_loss(opened)
    if then:
        return _ahead(opened, then, answers, reading, as_json=as_json)
    from foretrace.base.tables import encode
    from foretrace.check import check
    from foretrace.check.lines import lesson_text
    from foretrace.check.marking import document
    from foretrace.check.questions import questions

    asked = questions(opened)
    if not asked:
        raise UsageError(f"no question can be marked on this trace: {opened.ledger.gap or NOTHING}")
    verdicts = check(opened, [guess for _, _, guess in _answered(asked, answers)])
    click.echo(encode(document(verdicts)) if as_json else lesson_text(verdicts))
    missed = any(verdict.verdict == "miss" for verdict in verdicts)
    return 1 if missed or reading.fails(opened) else 0


def _ahead(a: Trace, then: str, answers: str | None, reading: use.Reading, *, as_json: bool) -> int:
    """Ask about the next trace; where only the change is known, print the answers."""
    from foretrace.base.tables import text
    from foretrace.compare.forecast import asked, forecast, page, questions_page
    from foretrace.look.fixes import fixes

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
    use.answer_in_sections("json" if as_json else "text", document, lambda: page(document))
    missed = any(each.you and each.you.verdict == "miss" for each in document.entries)
    return 1 if missed or reading.fails(a, b) else 0


def _answered(questions: Sequence[Asked], path: str | None) -> Iterator[tuple[Any, str, Any]]:
    """Each question that was answered, the answer, and the guess that it makes.

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
            return [(question, answer, question.guess(answer))] if answer else []
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
                yield question, line.strip(), question.guess(line)
        except UsageError as problem:
            raise UsageError(f"{path}: line {number}: {question.text} {problem}") from problem
