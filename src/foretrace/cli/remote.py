"""Run a script on another machine and bring its traces back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretrace.base.errors import UsageError
from foretrace.base.units import plural
from foretrace.cli import _options as use
from foretrace.show.render.terminal import plain

if TYPE_CHECKING:
    from foretrace.base.budget import Limits
    from foretrace.record.remote.plan import RemotePlan
    from foretrace.schema.documents.remote import RemoteDocument


@click.command(
    name="remote",
    epilog="See: foretrace docs remote",
    context_settings={"allow_interspersed_args": False},  # what follows SCRIPT is the script's
)
@use.option("--ssh HOST", "Use this host instead of a Hugging Face Job.", to="host")
@use.option("--fetch RUN", "Bring back a job, or with --ssh a run.", to="run")
@use.flag("--dry-run", "Print what would be sent and run, and stop. Needs no account.")
@use.shown("--flavor", "The job's machine: hf jobs hardware lists them.", default="a10g-small")
# Python's own image: pip, which brings uv, and a C compiler, which torch.compile needs
@use.shown("--image", "The job's image: with sh, and uv or pip.", default="python:3.12")
@use.shown("--timeout", "The job ends after this: a number and s, m, h or d.", default="30m")
@use.option(
    "--secret NAME",
    "An environment variable that the job gets as a secret; may be repeated.",
    to="secrets",
    multiple=True,
)
@use.option("--namespace", "Whose job it is: your account, or an organization.")
@use.flag("--no-wait", "Start the job, say how to fetch it, and stop.")
@use.option(
    "--with PACKAGE",
    "A package to install; inline metadata (PEP 723) is read. May be repeated.",
    to="packages",
    multiple=True,
)
@use.option(
    "--include PATH",
    "Send this file or folder too; the modules beside SCRIPT that it imports are sent.",
    multiple=True,
)
@use.option(
    "--install SPEC", "The foretrace to install there: a requirement, or a wheel, which is sent."
)
@use.option(
    "--python", "Use this Python there, instead of an environment that uv makes.", default=""
)
@use.option("--record OPTIONS", "Options of foretrace record, as one text.", default="")
@use.shown("-o --out", "Folder of the files.", default="traces")
@use.flag("--no-look", "Bring the files back and stop.")
@use.option(
    "--limit NAME=NUMBER",
    "Set a limit on what may come back, such as bytes=1GiB; see foretrace docs look.",
    multiple=True,
)
@use.as_json
@click.argument("script", type=use.PATH, required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(script: str | None, run: str | None, limit: tuple[str, ...], **given: Any) -> int:
    """Record SCRIPT with its ARGUMENTS on a machine with a GPU, and bring its traces back.

    A Hugging Face Job by default: the script and the modules beside it go to a private bucket,
    the job records it with foretrace record, and the traces come back to a folder of their own.
    --ssh HOST does the same on a host of yours.

    \b
    foretrace remote --dry-run examples/02_linear.py --batch 1024
    foretrace remote --flavor a100-large examples/03_simple_mlp.py --compile
    foretrace remote --fetch JOB
    foretrace remote --ssh gpu-box train.py
    """
    from foretrace.base.budget import parse_limits
    from foretrace.schema.documents import encode

    if bool(script) == bool(run):
        raise UsageError("give a SCRIPT to run elsewhere, or --fetch RUN to bring traces back")
    if "--dry-run" in given["arguments"] and not given["dry_run"]:
        raise UsageError("--dry-run goes before SCRIPT: what follows SCRIPT belongs to the script")
    if run and given["dry_run"]:
        raise UsageError("--dry-run shows what a SCRIPT would send: --fetch sends nothing")
    if given["host"] is not None and (given["secrets"] or given["no_wait"] or given["namespace"]):
        raise UsageError("--secret, --no-wait and --namespace are those of a job, not of --ssh")
    plan = None
    if script:
        from foretrace.record.remote.plan import plan_run

        plan = plan_run(
            Path(script),
            given["arguments"],
            packages=given["packages"],
            included=given["include"],
            install=given["install"],
            installs=not (given["host"] and given["python"]),  # a host is as its owner set it up
            python=given["python"],
            record=given["record"],
        )
    elsewhere = _as_job if given["host"] is None else _over_ssh
    with use.on_terminal():
        document = elsewhere(plan, run or "", parse_limits(limit), given)
    for note in () if given["dry_run"] else document.notes:
        _say(f"note: {note}")
    if given["as_json"]:
        click.echo(encode(document))
    else:
        _show(document, given)
    return 1 if document.failed else 0


def _show(document: RemoteDocument, given: dict[str, Any]) -> None:
    if given["dry_run"]:
        from foretrace.show.render.experiments import plan_text

        click.echo(plan_text(document, bold=use.shows_bold()))
    elif document.traces and not given["no_look"]:
        from foretrace.cli.record import show

        _say(f"{plural(len(document.brought), 'file')} in {Path(given['out']) / document.run}")
        show(Path(document.traces[0]))
    else:
        click.echo("\n".join(document.traces) or document.job or document.run)


def _say(text: str) -> None:
    use.say(plain(text))  # what the other machine says is untrusted


def _as_job(
    plan: RemotePlan | None, run: str, limits: Limits, given: dict[str, Any]
) -> RemoteDocument:
    from foretrace.record.remote.hub import HubJobs, JobOptions, job_named
    from foretrace.record.remote.plan import seconds_of

    named = {name: given[name] for name in ("flavor", "image", "secrets", "namespace")}
    options = JobOptions(seconds=seconds_of(given["timeout"]), **named)
    if plan is not None and given["dry_run"]:
        return HubJobs(options).explained(plan)
    job = HubJobs(options).start(plan) if plan else job_named(run, options)
    _say(f"{job.name}: {job.info.url}")
    if given["no_wait"]:
        _say(job.later)
        return job.document()
    try:
        job.wait(_say)
    except (KeyboardInterrupt, click.Abort, UsageError):  # the last: the Hub no longer answers
        _say(f"the job goes on; {job.later}")
        raise
    return job.fetched(Path(given["out"]), limits)


def _over_ssh(
    plan: RemotePlan | None, run: str, limits: Limits, given: dict[str, Any]
) -> RemoteDocument:
    from foretrace.record.remote.ssh import SshHost

    there, out = SshHost(given["host"]), Path(given["out"])
    if plan is None:
        return there.fetched(run, out, limits)
    if given["dry_run"]:
        return there.explained(plan, out)
    later = f"fetch: foretrace remote --ssh {there.host} --fetch {plan.run}"
    try:
        code = there.record(plan, lambda line: click.echo(plain(line), err=True))
    except (KeyboardInterrupt, click.Abort):
        _say(f"the script may go on; {later}")
        raise
    return there.fetched(plan.run, out, limits, plan, code)
