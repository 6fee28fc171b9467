"""Pass a trace to Perfetto, to other tools, or to people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from foretrace.base.errors import UsageError
from foretrace.cli import _options as use

FORMS = ("perfetto", "shared", "csv", "speedscope", "collapsed", "hub")
LONGEST_WAIT_S = 86_400
# the options that not every form has
OWN = {
    "perfetto": "overwrite annotated port_9001 no_browser wait",
    "shared": "keep",
    "hub": "keep",
    "csv": "overwrite captures",
    "speedscope": "overwrite captures",
    "collapsed": "overwrite captures",
}


@click.command("export", epilog="See: foretrace docs export")
@click.argument("trace", type=use.PATH)
@use.option(
    "--to FORM",
    "perfetto: its page, nothing is uploaded; shared: copies with public names only; hub: the same "
    "in a bucket of the Hugging Face Hub; csv, speedscope, collapsed: GPU time by module, op and "
    "kernel.",
    type=click.Choice(FORMS),
    required=True,
    to="form",
)
@use.option("-o --out OUT", "A file; for shared a folder, for hub a bucket: NAME, or USER/NAME.")
@use.flag("--overwrite", "Replace a file of that name.")
@use.option("--captures FOLDER", "As in foretrace look.", type=click.Path(exists=True))
@use.option("--keep WORDS", "shared, hub: keep any of names,stacks,inputs as well.")
@use.flag("--annotated", "perfetto: add findings, decoded names and ops as tracks; needs -o FILE.")
@use.flag("--port-9001", "perfetto: let its page fetch the file from port 9001 instead.")
@use.flag("--no-browser", "perfetto: print the address instead; with --annotated, write and stop.")
@use.option("--wait SECONDS", "perfetto: how long to wait for the browser (60).", type=float)
@use.opens_trace
def command(
    trace: str,
    form: str,
    out: str | None,
    reading: use.Reading,
    **given: Any,
) -> int:
    """Write TRACE in the format of another tool, or pass it on.

    csv, speedscope and collapsed print without -o. Without recorded modules the stacks begin with
    record_function ranges. The times of kernels that ran at once count in full. A trace without
    GPU work gives its host time by nn.Module and op.

    A shared copy keeps times, sizes and the names that PyTorch, CUDA and their libraries gave.
    Every other text is a hash. TRACE may be a folder or zip of traces. Nothing that is there is
    changed or deleted.

    \b
    foretrace export run.json.gz --to perfetto
    foretrace export run.json.gz --to speedscope -o run.speedscope.json
    foretrace export run.json.gz --to collapsed | flamegraph.pl --countname ns > run.svg
    foretrace export traces --to hub -o me/traces
    """
    for name, value in given.items():
        if value and name not in OWN[form].split():
            raise UsageError(f"--{name.replace('_', '-')} is no option of --to {form}")
    if form in ("shared", "hub"):
        return _share(trace, form, out, given["keep"] or "", reading)
    if form == "perfetto":
        return _open_in_perfetto(trace, out, reading, given)
    target = None if out in (None, "-") else use.new_file(out, overwrite=given["overwrite"])
    from foretrace.base.files import write_text
    from foretrace.pages.export.tables import exported

    opened = reading.trace(trace, given["captures"])
    use.warn_of_loss(opened)
    if not len(opened.gpu):
        use.say("the trace has no GPU work: times are host times, which include profiler overhead")
    text = exported(opened, form)
    if target is None:
        click.echo(text, nl=False)
    else:
        write_text(target, text)
        click.echo(str(target))
    return 1 if reading.fails(opened) else 0


def _open_in_perfetto(
    trace: str, out: str | None, reading: use.Reading, given: dict[str, Any]
) -> int:
    from foretrace.base.budget import waiting
    from foretrace.pages.export import handoff
    from foretrace.pages.export.perfetto import annotated

    wait = 60.0 if given["wait"] is None else given["wait"]
    if not 0 < wait <= LONGEST_WAIT_S:  # nor is it NaN
        raise UsageError(f"--wait {wait}: write seconds, at most {LONGEST_WAIT_S:,}")
    if bool(out) != given["annotated"]:
        raise UsageError("--annotated and -o FILE go together: the copy is written to FILE")
    copy = None if out is None else use.new_file(out, overwrite=given["overwrite"])
    opened = reading.trace(trace)
    path = copy or Path(opened.path)
    if copy is not None:
        for label, count in annotated(opened, path).items():
            click.echo(f"{count:8,}  {ascii(label)[1:-1]}", err=True)
        click.echo(str(path))
    elif not path.is_file():
        raise UsageError(f"{trace} is not a plain file: pass --annotated -o FILE to write one")
    failed = 1 if reading.fails(opened) else 0
    if copy is not None and given["no_browser"]:
        return failed
    server = handoff.one_file(path) if given["port_9001"] else handoff.page(path, path.name)
    click.echo(f"serving {server.address} (once, from this machine)", err=True)
    with use.in_browser(server.address, wanted=not given["no_browser"]), waiting():
        fetched = handoff.serve_until_fetched(server, wait)
    if not fetched:
        raise UsageError(f"the browser did not fetch the trace within {wait:.0f} s")
    return failed


def _share(path: str, form: str, out: str | None, keep: str, reading: use.Reading) -> int:
    from foretrace.base.terminal import plain
    from foretrace.base.units import plural
    from foretrace.pages.export import publish
    from foretrace.pages.export.allowed import KEEP
    from foretrace.read.door import SnapshotFile, TraceFile, TraceFolder

    if not out:
        raise UsageError(f"--to {form}: pass -o {'FOLDER' if form == 'shared' else 'BUCKET'}")
    if form == "shared" and out.endswith((".json", ".gz", ".zip")):
        raise UsageError(f"-o {out}: copies go into a folder, where each gets a name of its own")
    wanted = publish.parse_keep(keep)
    target = publish.Folder(Path(out)) if form == "shared" else publish.HubBucket(out)
    found = reading.opened(path, TraceFile, TraceFolder, SnapshotFile)
    lost, regions = False, dict[str, None]()
    for copy in publish.copies(found, target, wanted, reading.limits, cache=reading.cache):
        click.echo(f"{copy.place}{' (was there)' if copy.there else ''}")
        if copy.perfetto:
            click.echo(f"  {copy.perfetto}")
        if not copy.there:
            use.say(plain(f"{copy.source}: {plural(copy.hashed, 'text')} replaced by a hash"))
        for note in copy.notes:
            use.say(plain(note))
        regions |= dict.fromkeys(copy.regions)
        lost |= copy.lost_data
    for word in sorted(wanted):
        use.say(f"kept: {KEEP[word]}")
    if regions:
        use.say(plain(f"names of regions that stayed: {', '.join(sorted(regions))}"))
    return 1 if reading.strict and lost else 0
