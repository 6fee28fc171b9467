"""Record and measure: Profile a script without changing it."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import click

from foretrace.cli._options import flag, shown
from foretrace.cli.run import recording_options, say_bundle, show


@click.command(
    name="record",
    epilog="See: foretrace docs capture",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option(
    "-m", "--module", is_flag=True, help="SCRIPT is the name of a module, as in python -m."
)
@recording_options
@shown("--wait", type=click.IntRange(0), default=1, help="Steps timed before profiling.")
@shown(
    "--steps-at",
    type=click.Choice(("auto", "forward", "optimizer", "none")),
    default="auto",
    help="What begins a step: a call of the outermost module, or what follows optimizer.step.",
)
@shown(
    "--limit",
    type=click.IntRange(0),
    default=60,
    help="A script without steps: stop recording after this many seconds; 0 for no limit.",
)
@flag("--stop", "End the script once its steps are recorded.")
@click.argument("script", type=click.Path(readable=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    script: str, arguments: tuple[str, ...], folder: str, no_look: bool, as_json: bool, **given: Any
) -> int:
    """Run SCRIPT with its ARGUMENTS under the profiler, write trace and run record, and show them.

    The script needs no change: foretrace finds its steps. If the script raises, the trace
    recorded so far is kept, and the traceback and exit code are those of the script.

    With --why the script is compiled afresh, without caches, and `foretrace why TRACE` shows what
    torch.compile did and why.
    """
    from foretrace.profiling import need_torch

    need_torch()
    from foretrace.profiling.recorder import ScriptOptions
    from foretrace.profiling.script import record_script

    module = given.pop("module")
    options = ScriptOptions(find=given.pop("steps_at"), limit_s=given.pop("limit"), **given)
    name = script.rpartition(".")[2] if module else Path(script).stem
    # stdout holds one JSON document and nothing else: what the script prints goes to stderr.
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        done = record_script(
            script, arguments, Path(folder) / name, module=module, options=options, say=_progress
        )
    for note in done.notes:
        click.echo(f"note: {note}", err=True)
    bundle = next(iter(done.bundles.values()), None)
    say_bundle(bundle)
    if as_json:
        answer = {
            "schema": 1,
            "script": script,
            "exit_code": done.exit_code,
            "steps": done.steps,
            "notes": done.notes,
            "traces": [str(trace) for trace in done.traces],
            "why": None if bundle is None else str(bundle.folder),
        }
        click.echo(json.dumps(answer, indent=1))
    elif no_look:
        click.echo("\n".join(str(trace) for trace in done.traces))
    elif done.traces:
        show(done.traces[0])
    return done.exit_code


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[Kforetrace: {text}", err=True, nl=text.startswith("wrote"))
