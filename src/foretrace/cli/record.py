"""Profile a script without changing it."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from foretrace.base.errors import ForetraceError, MissingError, UsageError
from foretrace.cli import _options as use
from foretrace.cli._process import collecting_as_usual

if TYPE_CHECKING:
    from foretrace.record.profiling.compiler_records import Bundle
    from foretrace.record.profiling.script import RecordedScript

# the options of every command that records
recording_options = use.joined(
    use.shown("--steps", "Steps to record.", type=click.IntRange(1), default=3),
    use.shown("--warmup", "Calls before recording starts.", type=click.IntRange(0), default=3),
    use.shown("--shapes/--no-shapes", "Record the shapes of inputs.", default=True),
    use.flag("--stacks", "Record Python stacks (slow)."),
    use.flag("--memory", "Record allocations; on a GPU also keep the allocator's snapshot."),
    use.flag("--modules", "Record the module of each op (with --stacks)."),
    use.flag("--why", "Keep the compiler's records beside the trace, for foretrace why."),
    use.flag("--graphs", "Record CUDA graphs while they are captured: replayed kernels get ops."),
    use.option(
        "-o --out",
        "Folder of the files; by default traces, or that of [tool.foretrace] in pyproject.toml.",
        to="folder",
    ),
    use.flag("--overwrite", "Replace a trace of that name; without it, number the new one."),
    use.flag("--no-look", "Write the files and stop; this needs torch alone."),
    use.flag("--guess", "Answer five questions before the trace is shown."),
    use.as_json,
)
# of every command that runs a script
as_module = use.flag("-m --module", "SCRIPT is the name of a module, as in python -m.")
# of every command that finds the steps of a script
steps_at = use.shown(
    "--steps-at",
    "What begins a step: a call of the outermost module, or what follows optimizer.step.",
    type=click.Choice(("auto", "forward", "optimizer", "none")),
    default="auto",
)


@click.command(
    name="record",
    epilog="See: foretrace docs capture",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@as_module
@recording_options
@use.shown("--wait", "Steps timed before profiling.", type=click.IntRange(0), default=1)
@steps_at
@use.shown(
    "--limit",
    "A script without steps: stop recording after this many seconds; 0 for no limit.",
    type=click.IntRange(0),
    default=60,
)
@use.flag("--stop", "End the script once its steps are recorded.")
@use.option("--hf-job FLAVOR", "Record as a Hugging Face Job on this hardware (docs remote).")
@use.option("--timeout", "--hf-job: it ends after this, a number and s, m, h or d (30m).")
@use.option(
    "--secret NAME",
    "--hf-job: an environment variable that it gets as a secret; may be repeated.",
    to="secrets",
    multiple=True,
)
@use.flag("--dry-run", "--hf-job: print what would be sent and run. Needs no account.")
@click.argument("script", type=click.Path(readable=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(
    context: click.Context,
    /,
    script: str,
    arguments: tuple[str, ...],
    folder: str | None,
    no_look: bool,
    guess: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Run SCRIPT with its ARGUMENTS under the profiler, write trace and run record, and show them.

    The script needs no change: foretrace finds its steps. If the script raises, the trace
    recorded so far is kept, and the traceback and exit code are those of the script.

    With --memory a GPU's allocator is kept as well, for foretrace memory: after the recorded steps,
    and where the script runs out of memory.

    With --why the script is compiled afresh, without caches, and `foretrace why TRACE` shows what
    torch.compile did and why.
    """
    for word in misplaced(arguments):
        before = f"to set it for foretrace, write it before {script}"
        click.echo(f"note: {word} goes to the script; {before}", err=True)
    job = {name: given.pop(name) for name in ("hf_job", "timeout", "secrets", "dry_run")}
    if job["hf_job"]:
        return _as_job(context, Path(script), arguments, use.out_folder(folder), job)
    for name, value in job.items():
        if value:
            raise UsageError(f"--{name.rstrip('s').replace('_', '-')} is an option of --hf-job")
    from foretrace.record.profiling import need_torch

    need_torch()
    from foretrace.record.profiling.script import ScriptOptions, record_script

    module = given.pop("module")
    options = ScriptOptions(find=given.pop("steps_at"), limit_s=given.pop("limit"), **given)
    name = script.rpartition(".")[2] if module else Path(script).stem
    # stdout holds one JSON document and nothing else: what the script prints goes to stderr.
    stdout = contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext()
    with stdout, collecting_as_usual():
        done = record_script(
            script,
            arguments,
            use.out_folder(folder) / name,
            module=module,
            options=options,
            say=_progress,
        )
    bundle = next(iter(done.bundles.values()), None)
    for note in done.notes:
        click.echo(f"note: {note}", err=True)
    if bundle is not None:
        click.echo(bundle.text, err=True)
    if done.memory is not None:
        click.echo(f"kept the allocator's snapshot: foretrace memory {done.memory}", err=True)
    if as_json:
        click.echo(json.dumps(_document(script, done, bundle), indent=1))
    elif no_look:
        click.echo("\n".join(str(trace) for trace in done.traces))
    elif done.traces:
        show(done.traces[0], guess=guess)
    if done.traces:
        _say_next(done.traces[0], done.oom, unseen=no_look)
    return done.exit_code


def _as_job(
    context: click.Context, script: Path, arguments: tuple[str, ...], out: Path, job: dict[str, Any]
) -> int:
    """Record elsewhere, with the options of this line that are about the recording."""
    from foretrace.base.budget import Limits
    from foretrace.base.terminal import plain
    from foretrace.record import hf_job

    own, words = {*job, "folder", "no_look", "guess", "as_json", "overwrite"}, list[str]()
    for option in context.command.params:
        name, given = str(option.name), context.get_parameter_source(str(option.name))
        if isinstance(option, click.Option) and given == ParameterSource.COMMANDLINE:
            value, names = context.params[name], (*option.opts, *option.secondary_opts)
            if name not in own:
                words += [names[0 if value else -1], *([] if option.is_flag else [str(value)])]
    words += [script.name, *arguments]
    timeout = job["timeout"] or "30m"
    plan = hf_job.plan_job(script, words, job["hf_job"], timeout, job["secrets"])
    if job["dry_run"]:
        click.echo(str(plan))
        return 0
    for path in hf_job.run_job(plan, out, Limits(), lambda text: use.say(plain(text))):
        click.echo(str(path))
    return 0


def _document(script: str, done: RecordedScript, bundle: Bundle | None) -> dict[str, Any]:
    paths = {"why": bundle and bundle.folder, "memory": done.memory, "oom": done.oom}
    return {
        "schema": 1,
        "script": script,
        "exit_code": done.exit_code,
        "steps": done.steps,
        "notes": done.notes,
        "traces": [str(trace) for trace in done.traces],
        **{name: None if path is None else str(path) for name, path in paths.items()},
    }


def _failure(snapshot: Path) -> str:
    """What wanted memory, and what held it."""
    try:
        from foretrace.memory import memory_document
        from foretrace.memory.lines import failure_text
        from foretrace.read.snapshot import read_snapshot

        return failure_text(memory_document(read_snapshot(str(snapshot))).device)
    except (ImportError, ForetraceError) as problem:
        return f"the snapshot is not read: {problem}"


def misplaced(arguments: Sequence[str]) -> list[str]:
    """Options of this command that stand after the script, which gets them."""
    own = {word for option in command.params for word in option.opts if word.startswith("-")}
    return [word for word in arguments if word.partition("=")[0] in own]


def _say_next(trace: Path, oom: Path | None, *, unseen: bool) -> None:
    """The files, and what one does with them: the second recording of a script is compared, never
    one that failed.

    A failure for lack of memory is said here, where no page and no traceback follows it.
    """
    failed, lines = _error(trace) is not None, [f"wrote {trace}"]
    then = "correct the script and record it again" if failed else _comparison(trace)
    then = f"foretrace look {trace} --guess" if unseen and not failed else then
    if oom is not None:
        lines += [f"wrote {oom}", f"out of memory: {_failure(oom)}"]
        then = f"foretrace memory {oom}; {then}"
    click.echo("\n".join([*lines, f"next: {then}"]), err=True)


def _error(trace: Path) -> str | None:
    """What its script raised; by hand, since a machine that only records lacks the reader."""
    from foretrace.record.profiling.export import record_path

    try:
        found: str | None = json.loads(record_path(trace).read_text("utf-8")).get("error")
    except (OSError, ValueError, AttributeError):
        return None
    return found


def _comparison(trace: Path) -> str:
    """Compares with the first recording of the script that did not fail."""
    stem, _, end = trace.name.partition(".json")
    found, number = re.fullmatch(r"(.+)_([2-9]|[1-9]\d{1,2})", stem), 1
    if found and trace.with_name(f"{found[1]}.json{end}").exists():
        stem, number = found[1], int(found[2])
    names = [f"{stem}.json{end}", *(f"{stem}_{n}.json{end}" for n in range(2, number + 2))]
    *earlier, _, after = map(trace.with_name, names)
    for before in earlier:
        if before.exists() and _error(before) is None:
            return f"foretrace compare {before} {trace}"
    return f"change the script, record it again, then foretrace compare {trace} {after}"


def _progress(text: str) -> None:
    """A line of its own: the script prints on the same terminal."""
    if sys.stderr.isatty():
        click.echo(f"foretrace: {text}", err=True)


def show(trace: Path, *, guess: bool = False) -> None:
    """Look at a trace just written; only here capturing needs the reader."""
    try:
        from foretrace.cli.look import command as look

        look.main(
            [str(trace), *["--guess"] * guess], prog_name="foretrace look", standalone_mode=False
        )
    except ImportError as problem:
        message = f"wrote {trace}; to look at it: pip install foretrace (or pass --no-look)"
        raise MissingError(message) from problem
