"""Apply known fixes to a script, measure each, and write the patch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from foretrace.base.errors import UsageError, nearest
from foretrace.base.files import write_text
from foretrace.cli import _options as use
from foretrace.cli.record import as_module, steps_at


@click.command(
    name="try",
    epilog="See: foretrace docs try",
    context_settings={"allow_interspersed_args": False},
)
@use.option("--only FIX", "Try this fix; may be repeated.", multiple=True)
@as_module
@use.option(
    "--steps", "Steps of a block; by default as many as need 0.1 s.", type=click.IntRange(1)
)
@use.shown("--rounds", "Blocks with and without each fix.", type=click.IntRange(3), default=11)
@use.shown("--budget", "Time for everything: 90s, 10m, 1h.", default="10m")
@steps_at
@use.option("--patch FILE", "Where the patch goes; by default SCRIPT.patch.")
@use.option("--html FILE", "Also write a page with a bar for each fix.")
@use.flag("--overwrite", "Replace the patch and the page of an earlier run.")
@use.flag("--all", "Also try what the replay predicts to bring nothing, and what takes minutes.")
@use.flag("--dry-run", "Run the script untouched and list what would be tried, and why.")
@use.flag("--guess", "Ask first which fix will help most.")
@click.argument("script", type=click.Path(readable=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@use.in_tables
def command(script: str, arguments: tuple[str, ...], form: str, **given: Any) -> int:
    """Run SCRIPT as it is, then with each known fix, and show what helped and by how much.

    The script needs no change: foretrace finds its steps. Blocks of steps with and without a fix
    take turns in one process. Results are compared with those of untouched runs. What pays together
    is written as a patch and run.

    SCRIPT may be a function, `file.py:function`, that returns a callable and its inputs; whole
    numbers after it are its arguments.

    \b
    foretrace try train.py
    foretrace try --only fused_optimizer --only compile train.py --batch 32
    foretrace try --dry-run train.py
    foretrace try --only compile bench.py:setup 16 128   whether compiling pays, and when
    """
    from msgspec.structs import replace

    from foretrace.base.files import scratch
    from foretrace.pages.page import write_page
    from foretrace.pages.page_tables import try_html
    from foretrace.record.profiling import need_torch
    from foretrace.record.tries.lines import page

    need_torch()
    from foretrace.record.tries.tournament import TryOptions

    budget = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", given["budget"].strip())
    if budget is None:
        raise UsageError(f"{given['budget']!r} is no time: write 90s, 10m or 1h")
    options = TryOptions(
        pairs=given["rounds"],
        block=given["steps"] or 0,
        budget_s=float(budget[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[budget[2]],
        everything=given["all"],
        only=given["only"],
        dry=given["dry_run"],
    )
    target = use.new_file(
        given["patch"] or f"{Path(script).stem}.patch", overwrite=given["overwrite"]
    )
    html = use.new_file(given["html"], overwrite=given["overwrite"]) if given["html"] else None
    with scratch() as folder:
        told = _told(script, arguments, given, folder)
        document, stopped = _tried(told, options, folder, script, given["guess"])
    if document.patch is not None and document.patch.diff:
        write_text(target, document.patch.diff)
        document = replace(document, patch=replace(document.patch, path=str(target)))
    if html is not None:
        write_page(html, try_html(document), [])
    use.answer_in_tables(form, document, lambda: page(document))
    if stopped is not None:
        raise stopped
    return 0


def _told(script: str, arguments: tuple[str, ...], given: dict[str, Any], folder: Path) -> Any:
    """What every process of the script is told; refuses what cannot run."""
    import os

    from foretrace.cli import _gated_mlp
    from foretrace.record.tries.rounds import TrySpec

    if int(os.environ.get("WORLD_SIZE") or 1) > 1:
        raise UsageError("this is one process of several (WORLD_SIZE): try runs one process alone")
    is_function = ".py:" in script or (":" in script and not os.path.exists(script))
    path = script.rpartition(":")[0] if is_function else script
    if not given["module"] and path.endswith(".py") and not os.path.isfile(path):
        raise UsageError(f"no such script: {path}")
    if is_function and (wrong := [word for word in arguments if not word.isdecimal()]):
        message = f"{script} takes whole numbers, not {wrong[0]!r}"
        raise UsageError(f"{message}: options of foretrace come before it")
    if os.path.isdir(script):
        raise UsageError(f"{script} is a folder: give the script in it")
    if not is_function and not given["module"] and not os.path.isfile(script):
        raise UsageError(f"no such script: {script}")
    return TrySpec(
        script=script,
        report=str(folder / "report.jsonl"),
        arguments=arguments,
        module=given["module"],
        function=is_function,
        find=given["steps_at"],
        further=(_gated_mlp.__name__,),
    )


def _tried(told: Any, options: Any, folder: Path, name: str, guesses: bool) -> Any:
    from msgspec.structs import replace

    from foretrace.record.tries import child
    from foretrace.record.tries.applied import applied
    from foretrace.record.tries.rounds import Processes
    from foretrace.record.tries.tournament import Tournament, tried

    known = applied(*told.further)
    for each in options.only:
        if each not in known:
            hint = nearest(each, known, f"choose from {', '.join(known)}")
            raise UsageError(f"no fix {each!r}: {hint}")
    guess = _guessed(list(known)) if guesses else None
    with Processes(folder, child.__name__) as processes:
        tournament = Tournament(told, known, options, processes, use.say)
        document = tried(tournament, name)
    return replace(document, guess=guess), tournament.stopped


def _guessed(known: list[str]) -> Any:
    """The user's guess, before anything runs."""
    from foretrace.read.tried import TriedGuess

    click.echo(f"Known fixes: {', '.join(known)}", err=True)
    which = click.prompt(
        "Which one will help most", type=click.Choice(known), show_choices=False, err=True
    )
    factor = click.prompt("How many times faster will it be", type=click.FloatRange(0.1), err=True)
    return TriedGuess(which, factor)
