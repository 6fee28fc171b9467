"""Be shown a program, predict, and see at once why."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foretrace.base.errors import MissingError, UsageError
from foretrace.cli import _options as use

# what a reader may type for a key; a shifted key is the key
WORDS = {"b": "back", "q": "quit exit", "s": "skip", "?": "hint help h"}
KEYS = {word: key for key, words in WORDS.items() for word in (key, *words.split())}

if TYPE_CHECKING:
    from foretrace.learn.lessons.sitting import Sitting


@click.command("lesson", epilog="See: foretrace docs lessons")
@click.argument("number", required=False, metavar="[NUMBER|TRACE]")
@use.flag("--list", "List the lessons, and how far you are.")
@use.flag("--again", "Start at the first question, even where an earlier sitting stopped later.")
@use.flag("--live", "Record the programs of the lesson on this machine; needs torch.")
@use.option("--html OUT", "Write a page with the lesson, or with all of them.")
@use.flag("--overwrite", "Replace a file of that name.")
@use.as_json
@use.opens_trace
def command(
    number: str | None,
    again: bool,
    live: bool,
    html: str | None,
    overwrite: bool,
    as_json: bool,
    reading: use.Reading,
    **wanted: bool,
) -> int:
    """Play lesson NUMBER: ten lines of code, a question, and the answer at once.

    \b
    foretrace lesson --list
    foretrace lesson 1
    foretrace lesson 1 --live               on your GPU, or on your CPU
    foretrace lesson t.json.gz              questions about your own trace
    foretrace lesson --html lessons.html    all of them in a browser

    Each question is marked on a recording that ships with foretrace: no GPU and no torch is needed.
    `?` prints a hint, `s` skips a question, `b` goes back, `q` stops, and so do the words; the next
    sitting goes on there. With --json the questions go to stderr, and one document to stdout. With
    --html a page is written that asks the same in a browser; it needs neither foretrace nor a
    network.
    """
    from foretrace.base.files import scratch
    from foretrace.learn.lessons import lessons
    from foretrace.learn.lessons.lines import list_text
    from foretrace.learn.lessons.sitting import read_progress

    if wanted["list"] or (number is None and html is None):
        standing = {name: each.text for name, each in read_progress().lessons.items()}
        listed = [
            {
                "number": each.number,
                "name": each.name,
                "title": each.title,
                "questions": len(each.steps),
                "standing": standing.get(each.name, ""),
            }
            for each in lessons()
        ]
        document = json.dumps({"schema": 1, "lessons": listed}, ensure_ascii=False)
        click.echo(document if as_json else list_text(lessons(), standing))
        return 0
    if html is None and number == "-":
        raise UsageError("the answers come from stdin: give the trace as a file, or add --html")
    if html is not None and as_json:
        raise UsageError("choose one of --html and --json")
    target = use.new_file(html, overwrite=overwrite) if html is not None else None
    words = [number] if number is not None else [each.name for each in lessons()]
    chosen: list[tuple[Sitting, str]] = []  # of several lessons those that this machine can play
    with scratch() as folder:
        for word in words:
            try:
                chosen.append(_sitting(word, folder if live else None, reading))
            except MissingError as problem:
                if len(words) == 1:
                    raise
                use.say(str(problem))
        if target:
            from foretrace.learn.lessons.lesson_page import lesson_html, lesson_page
            from foretrace.pages.page import write_page

            page = lesson_html([lesson_page(*each) for each in chosen])
            traces = [trace.path for sitting, _ in chosen for trace in sitting.traces]
            click.echo(str(write_page(target, page, traces)))
        else:
            _play(*chosen[0], again, as_json)
        opened = (trace for sitting, _ in chosen for trace in sitting.traces)
        return 1 if reading.fails(*opened) else 0


def _sitting(word: str, folder: Path | None, reading: use.Reading) -> tuple[Sitting, str]:
    """The lesson of that number or name, or one on a trace; and the name that progress has."""
    from foretrace.learn import lessons
    from foretrace.learn.lessons.sitting import Sitting
    from foretrace.read.recordings import opened_as

    if not any(word in (str(each.number), each.name) for each in lessons.lessons()):
        path = opened_as(word)
        looks_like_one = path == "-" or any(mark in path for mark in ("/", "::", ".json"))
        if looks_like_one or os.path.exists(path):
            if folder:
                raise UsageError(f"--live records the programs of a lesson: {word} is a trace")
            from foretrace.learn.lessons.own import own_sitting
            from foretrace.read.door import TraceFile, TraceFolder

            found = reading.opened(path, TraceFile, TraceFolder)
            if isinstance(found, TraceFolder) and len(found.traces) > 1:
                count = len(found.traces)
                raise UsageError(f"{path} contains {count} traces: a lesson is about one")
            return own_sitting(reading.trace(found)), ""
    chosen = lessons.lesson(word)
    if folder is None:
        return Sitting(chosen, reading.trace), chosen.name
    from foretrace.learn.lessons.live import live_sitting

    return live_sitting(chosen, folder, reading.trace, use.say), f"{chosen.name}, live"


def _play(sitting: Sitting, name: str, again: bool, as_json: bool) -> None:
    """Ask one question after the other; progress has the lesson under `name`, if it has one."""
    from foretrace.base.tables import encode
    from foretrace.learn.lessons.lines import end_text, title_text
    from foretrace.learn.lessons.sitting import KeptLesson, keep_progress, read_progress

    lesson = sitting.lesson
    click.echo(title_text(lesson, bold=use.shows_bold()), err=as_json)
    earlier = read_progress().lessons.get(name)
    if earlier and not earlier.finished and not again:
        sitting.resume(earlier.answers)
    with suppress(click.Abort):  # Ctrl+C stops as `q` does: what was answered is kept
        while sitting.step and ask(sitting, as_json):
            answers = sitting.answers[: sitting.at]
            if name:
                keep_progress(name, KeptLesson(answers, len(lesson.steps), sitting.hits))
    document = sitting.document()
    live = " --live" if name.endswith(", live") else ""
    goes_on = f"foretrace lesson {lesson.number}{live}: goes on at question {sitting.at + 1}"
    left = goes_on if sitting.step and name else ""
    click.echo(encode(document) if as_json else f"\n{end_text(document, left)}")


def ask(sitting: Sitting, to_stderr: bool = False) -> bool:
    """Ask the open question until it is answered, skipped or left; False when the reader stops.

    Ctrl+C raises `click.Abort`.
    """
    from foretrace.learn.lessons.lines import asked_text, marked_text

    bold, asked = use.shows_bold(), sitting.asked(sitting.at)
    click.echo(f"\n{asked_text(asked, bold=bold)}", err=to_stderr)
    if asked.skipped:
        sitting.skip()
        return True
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
    from foretrace.base.budget import asking

    try:
        with asking():
            answer = str(
                click.prompt(">", default="", show_default=False, prompt_suffix=" ", err=to_stderr)
            )
    except click.Abort as end:
        click.echo("", err=to_stderr)
        if isinstance(end.__context__, KeyboardInterrupt):
            raise
        return None
    if not sys.stdin.isatty():
        click.echo(answer, err=to_stderr)
    return KEYS.get(answer.strip().lower(), answer.strip())
