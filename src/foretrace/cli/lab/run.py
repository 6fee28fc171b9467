"""Profile one rung of the ladder."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from foretrace.base.errors import UsageError
from foretrace.base.units import percent_text, plural, time_text
from foretrace.cli import SuggestingGroup
from foretrace.cli import _options as use
from foretrace.cli.lab import builds_rung
from foretrace.cli.record import recording_options, show
from foretrace.record.rung import COMPILED, MODES, Choice, Option, Rung

_CHOICE = ("variant", "mode", "device", "dtype", "small", "seed")


class _Rungs(SuggestingGroup):
    """One subcommand per rung, with that rung's own options."""

    what = "rung"

    def list_commands(self, ctx: click.Context) -> list[str]:
        from foretrace.learn.ladder import rungs

        return [rung.name for rung in rungs()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from foretrace.learn.ladder import rungs

        return next((_command(rung) for rung in rungs() if rung.name == cmd_name), None)


@click.command(cls=_Rungs, name="run", epilog="See: foretrace docs ladder")
def command() -> None:
    """Run one rung of the ladder under the profiler, write its trace and run record, and show it.

    Sizes default to those of the article; --small takes seconds on a CPU.
    `foretrace lab run RUNG --help` lists the rung's own options and variants.
    """


_VARIANT = use.joined(
    use.option("--variant", "Which variant; see above."),
    use.flag("--compile", "Run it under torch.compile.", to="compiled"),
    use.shown("--mode", "For --compile.", type=click.Choice(MODES), default="default"),
    builds_rung(),
)


def _command(rung: Rung) -> click.Command:
    named = {**rung.variants, COMPILED: "the first one under torch.compile"}
    variants = "\n".join(f"  {name}: {text}" for name, text in named.items())
    own = use.joined(*(_option(option) for option in rung.options))
    body = own(recording_options(_VARIANT(lambda **given: _run(rung, given))))
    text = f"{rung.title}.\n\n\b\nVariants:\n{variants}"
    return click.command(name=rung.name, help=text, short_help=rung.title)(body)


def _option(option: Option) -> use.Decorator:
    names = dict.fromkeys((f"--{option.name.replace('_', '-')}", f"--{option.name}"))
    if isinstance(option.default, bool):
        return click.option(*names, option.name, is_flag=True, default=None, help=option.help)
    small = "" if option.small is None else f"; {option.small} with --small"
    kind = click.Choice(option.choices) if option.choices else type(option.default)
    text = f"{option.help}  [{option.default}{small}]"
    return click.option(*names, option.name, type=kind, help=text)


def _run(rung: Rung, given: dict[str, Any]) -> None:
    from foretrace.learn.ladder import run
    from foretrace.record.profiling import need_torch

    no_look, as_json, folder = given.pop("no_look"), given.pop("as_json"), given.pop("folder")
    guess = given.pop("guess")
    choice = Choice(
        compile=given.pop("compiled"),
        values={option.name: given.pop(option.name) for option in rung.options},
        **{name: given.pop(name) for name in _CHOICE},
    )
    if choice.mode != "default" and not choice.compiles:
        raise UsageError(f"--mode {choice.mode} is a mode of torch.compile: add --compile")
    if given["why"] and not choice.compiles:
        raise UsageError("--why keeps the records of torch.compile: add --compile")
    if sys.stderr.isatty():  # a CPU takes a minute at the sizes of the article
        use.say(f"recording {rung.title}{'' if choice.small else '; --small is quicker'} …")
    need_torch()
    from foretrace.record.experiments.machine import refusals

    with refusals(rung.name):
        captured = run(rung, choice, use.out_folder(folder), **given)
    assert captured.trace is not None
    assert captured.record_file is not None
    record = json.loads(captured.record_file.read_text(encoding="utf-8"))
    if as_json:
        files = {"trace": str(captured.trace), "record": str(captured.record_file)}
        files |= {"why": str(captured.bundle.folder)} if captured.bundle else {}
        click.echo(json.dumps({"schema": 1, **files, "run": record}, indent=1))
        return
    click.echo(f"wrote {captured.trace}\n{_summary(record)}", err=True)
    if captured.bundle is not None:
        click.echo(captured.bundle.text, err=True)
    if liger := record["rung"]["facts"].get("liger"):
        from foretrace.learn.ladder.builders import source_text

        click.echo(source_text(liger), err=True)
    if no_look:
        click.echo(captured.trace)
    else:
        show(captured.trace, guess=guess)


def _summary(record: dict[str, Any]) -> str:
    timing, compiling = record["timing"], record["compile"]
    added = timing["profiler_overhead"]
    overhead = f"the profiler adds {percent_text(added)} to the host time"
    if added is not None and added < 0:  # a profiler saves no time
        overhead = "what the profiler adds to the host time is within the noise"
    parts = [
        f"first call {time_text(timing['first_call_ns'])}",
        f"{time_text(timing['wall_ns_per_call'])} per call without the profiler",
        overhead,
    ]
    if compiling["frames"]:
        seconds, frames = compiling["seconds"], plural(compiling["frames"], "frame")
        parts.append(f"compile time {seconds:.1f} s for {frames}")
    return "; ".join(parts)
